#include "mesh/plan/training_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/units.h"
#include "mesh/plan/schedule_choice.h"
#include "mesh/program/checkpoint_programs.h"

namespace weft::mesh {
namespace {

actors::MeshRequest request_of(const MeshConfig& mesh) {
  actors::MeshRequest request;
  request.mesh = mesh.name;
  request.shape = MeshShape(mesh.axes);
  request.hosts = mesh.hosts;
  return request;
}

transfer::Network network_of(const LayoutConfig& layout, const std::vector<std::string>& hosts) {
  transfer::Network network = transfer::Network::uniform(hosts.size(), LayoutConfig::kUnknownLink);
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (const auto link = layout.links.find(hosts[i]); link != layout.links.end())
      network.hosts[i] = {{transfer::Nic{link->second, link->second}}};
  return network;
}

void check_layers(const LayoutConfig& layout, const Graph& graph) {
  if (layout.num_layers() == graph.num_blocks()) return;
  throw Error(ErrorCode::kInvalidConfig,
              fmt::format("the stages have {} layers together, but the model has {}; change "
                          "pipeline.stages or the model",
                          layout.num_layers(), graph.num_blocks()))
      .at("pipeline.stages");
}

/// The schedule's forwards alone: what keeps every dependency that they have among themselves.
Schedule forwards_of(const Schedule& schedule) {
  Schedule forwards = schedule;
  forwards.name = "forwards of " + schedule.name;
  for (std::vector<Action>& actions : forwards.actors) {
    std::erase_if(actions,
                  [](const Action& action) { return action.kind != ActionKind::kForward; });
  }
  return forwards;
}

/// Of the programs, which run one at a time.
std::uint64_t arena_bytes(const TrainingPlan& plan, transfer::DeviceId device) {
  std::uint64_t most = 0;
  for (const auto* programs : plan.all_programs()) {
    for (const Program& program : *programs) {
      if (program.device == device) most = std::max(most, program.arena_bytes);
    }
  }
  return most;
}

std::uint64_t staging_bytes(const TrainingPlan& plan, transfer::DeviceId device) {
  std::uint64_t most = 0;
  for (const auto* programs : {&plan.train.programs, &plan.validate.programs}) {
    for (const Program& program : *programs) {
      if (program.device == device) most = std::max(most, collective_staging_bytes(program));
    }
  }
  return most;
}

bool is_gpu(const TrainingPlan& plan, transfer::DeviceId device) {
  return std::ranges::any_of(plan.layout.device_places, [&](const transfer::DevicePlace& place) {
    return place.device == device && place.is_gpu;
  });
}

void plan_checkpoint(TrainingPlan& plan, GatherFrom from) {
  const bool copies = from == GatherFrom::kCopies;
  plan.layout.checkpoint_copies = copies ? CheckpointCopies::kYes : CheckpointCopies::kNo;
  plan.checkpoint = compile_checkpoint(plan.partition, plan.driver(), plan.topology,
                                       plan.layout.checkpoint_buffer, from);
  plan.checkpoint_copy = copies ? compile_checkpoint_copy(plan.checkpoint) : std::vector<Program>();
}

/// Gives up copies for checkpoints if all devices fit pipeline.memory without them; whether they
/// do.
bool fits_without_copies(TrainingPlan& plan) {
  if (!plan.copies_checkpoints()) return false;
  std::uint64_t most = 0;
  for (const Program& program : plan.train.programs) {
    const std::uint64_t copies = checkpoint_copy_bytes(plan, program.device);
    const std::uint64_t counted = is_gpu(plan, program.device) ? 0 : copies;
    if (device_memory(plan, program.device) - counted > *plan.layout.memory) return false;
    most = std::max(most, copies);
  }
  drop_checkpoint_copies(
      plan,
      fmt::format("a copy of parameters and moments, of up to {} on a device, would go beyond "
                  "pipeline.memory, {}",
                  format_bytes(most), format_bytes(*plan.layout.memory)));
  return true;
}

/// `network` absent: the layout's.
TrainingPlan make_plan(const LayoutConfig& layout, const ModelGraphs& model,
                       const MeshPlaces& places, const transfer::Network* network) {
  check_layers(layout, model.train.graph);
  TrainingPlan plan;
  plan.layout = layout;
  PartitionRequest request;
  DeviceNumbering numbering = number_devices(layout, places);
  request.meshes = std::move(numbering.meshes);
  plan.hosts = std::move(numbering.hosts);
  plan.topology = std::move(numbering.topology);
  plan.network = network != nullptr ? *network : network_of(layout, plan.hosts);
  request.mesh_of_stage = layout.mesh_of_stage();
  request.stage_of_block = layout.stage_of_layer();
  request.rules = layout.sharding;
  request.graph = model.train.graph;
  request.loss = model.train.loss;
  request.gradients = model.train.gradients;
  plan.partition = partition(request);
  CompileOptions options;
  options.strategy = layout.resharding;
  options.lowering = layout.lowering;
  options.credits = layout.credits;
  options.payload = layout.payload;
  for (const StageConfig& stage : layout.stages) options.recompute.push_back(stage.recompute);
  options.network = plan.network;
  CompileOptions validate_options = options;
  validate_options.name = kValidateProgram;
  plan_checkpoint(plan, layout.checkpoint_copies == CheckpointCopies::kNo ? GatherFrom::kParameters
                                                                          : GatherFrom::kCopies);
  request.graph = model.validate;
  request.loss = model.validate_loss;
  request.gradients.clear();
  const Partition forward_only = partition(request);
  for (Schedule& schedule : schedules_to_begin_with(layout, stage_edges(plan.partition))) {
    plan.train = compile(plan.partition, schedule, plan.topology, options);
    plan.validate = compile(forward_only, forwards_of(schedule), plan.topology, validate_options);
    const std::array steps{&plan.train, &plan.validate};
    const bool through_host = layout.gpu_transfers == GpuTransfers::kHost;
    plan.collectives = use_device_collectives(
        steps, through_host ? std::vector<transfer::DevicePlace>() : layout.device_places,
        {.deterministic = layout.deterministic});
    plan.schedule = std::move(schedule);
    if (!find_short_of_memory(plan)) return plan;
    // A run that pauses for checkpoints rather than one under a slower schedule.
    if (layout.checkpoint_copies == CheckpointCopies::kIfMemoryAllows && fits_without_copies(plan))
      return plan;
  }
  const transfer::DeviceId device = *find_short_of_memory(plan);
  const std::uint64_t needed = device_memory(plan, device), activations = arena_bytes(plan, device);
  throw Error(ErrorCode::kInvalidConfig,
              fmt::format("schedule '{}' needs {} on {} ({} of parameters, gradients and moments, "
                          "{} of activations), but pipeline.memory is "
                          "{}; make that more, take smaller microbatches, compute activations "
                          "twice (recompute: true), or {}",
                          plan.schedule.name, format_bytes(needed),
                          plan.train.programs[device.value()].device_name,
                          format_bytes(needed - activations), format_bytes(activations),
                          format_bytes(*layout.memory),
                          layout.schedule == LayoutConfig::kAuto
                              ? "use more devices"
                              : "take a schedule that holds fewer microbatches"))
      .at("pipeline.memory");
}

}  // namespace

std::vector<const std::vector<Program>*> TrainingPlan::all_programs() const {
  std::vector<const std::vector<Program>*> all = {&train.programs, &validate.programs};
  for (const CheckpointBatch& batch : checkpoint)
    all.insert(all.end(), {&batch.gather, &batch.scatter});
  if (!checkpoint_copy.empty()) all.push_back(&checkpoint_copy);
  return all;
}

MeshPlaces plan_places(const LayoutConfig& layout,
                       const std::vector<std::pair<std::string, std::uint32_t>>& hosts) {
  actors::Placement placement;
  for (const auto& [name, devices] : hosts) placement.add_host(name, devices);
  MeshPlaces places;
  for (const MeshConfig& mesh : layout.meshes)
    places.push_back(placement.take(request_of(mesh), {mesh.name, 1}));
  return places;
}

DeviceNumbering number_devices(const LayoutConfig& layout, const MeshPlaces& places) {
  DeviceNumbering result;
  std::vector<std::string>& hosts = result.hosts;
  std::uint32_t next = 0;
  for (std::size_t m = 0; m < layout.meshes.size(); ++m) {
    std::vector<transfer::DeviceId> devices;
    for (const actors::HostDevice& place : places[m]) {
      auto host = std::find(hosts.begin(), hosts.end(), place.host);
      if (host == hosts.end()) host = hosts.insert(hosts.end(), place.host);
      result.topology.host_of_device.emplace_back(host - hosts.begin());
      devices.emplace_back(next++);
    }
    result.meshes.emplace_back(layout.meshes[m].name, layout.meshes[m].axes, std::move(devices));
  }
  result.topology.host_of_device.emplace_back(hosts.size());
  hosts.emplace_back("driver");
  return result;
}

TrainingPlan make_training_plan(const LayoutConfig& layout, const ModelGraphs& model,
                                const MeshPlaces& places) {
  return make_plan(layout, model, places, nullptr);
}

TrainingPlan make_training_plan(const LayoutConfig& layout, const ModelGraphs& model,
                                const MeshPlaces& places, const transfer::Network& network) {
  return make_plan(layout, model, places, &network);
}

std::string digest_of_steps(const TrainingPlan& plan) {
  std::string digests;
  for (const auto* programs : {&plan.train.programs, &plan.validate.programs}) {
    for (const Program& program : *programs) digests += sha256(encode(program));
  }
  return sha256(std::as_bytes(std::span(digests)));
}

std::uint64_t device_memory(const TrainingPlan& plan, transfer::DeviceId device) {
  std::map<std::string, std::uint64_t> blocks;
  for (const auto* programs : plan.all_programs()) {
    for (const Program& program : *programs) {
      if (program.device != device) continue;
      for (const Persistent& block : program.persistents) blocks[block.name] = block.bytes;
    }
  }
  if (is_gpu(plan, device)) {
    for (const Program& program : plan.checkpoint_copy)
      for (const Persistent& block : program.persistents)
        if (program.device == device && block.place == MemoryPlace::kHost) blocks.erase(block.name);
  }
  std::uint64_t bytes = arena_bytes(plan, device) + staging_bytes(plan, device);
  for (const auto& [name, size] : blocks) bytes += size;
  return bytes;
}

std::uint64_t host_memory(const TrainingPlan& plan, transfer::DeviceId device) {
  return is_gpu(plan, device) ? checkpoint_copy_bytes(plan, device) : device_memory(plan, device);
}

std::uint64_t checkpoint_copy_bytes(const TrainingPlan& plan, transfer::DeviceId device) {
  std::uint64_t bytes = 0;
  for (const Program& program : plan.checkpoint_copy) {
    if (program.device != device) continue;
    for (const Persistent& block : program.persistents)
      bytes += block.place == MemoryPlace::kHost ? block.bytes : 0;
  }
  return bytes;
}

void drop_checkpoint_copies(TrainingPlan& plan, std::string because) {
  plan_checkpoint(plan, GatherFrom::kParameters);
  plan.no_copies_because = std::move(because);
}

std::optional<transfer::DeviceId> find_short_of_memory(const TrainingPlan& plan) {
  if (!plan.layout.memory) return std::nullopt;
  for (const Program& program : plan.train.programs) {
    if (device_memory(plan, program.device) > *plan.layout.memory) return program.device;
  }
  return std::nullopt;
}

void check_same_places(const LayoutConfig& running, const LayoutConfig& other) {
  const auto differs = [&](const char* what) {
    throw_error(ErrorCode::kInvalidArgument,
                "the job runs with other {}; start it anew to change that", what);
  };
  const auto same_mesh = [](const MeshConfig& a, const MeshConfig& b) {
    return a.name == b.name && a.axes == b.axes;
  };
  if (!std::ranges::equal(running.meshes, other.meshes, same_mesh)) differs("meshes");
  if (running.sharding.axes != other.sharding.axes) differs("rules for sharding");
  if (running.mesh_of_stage() != other.mesh_of_stage()) differs("stages on its meshes");
  if (running.stage_of_layer() != other.stage_of_layer()) differs("layers in its stages");
  if (running.microbatches != other.microbatches) differs("microbatches");
}

namespace {

/// The parameters that the stage's forward reads.
std::set<ValueId> parameters_of(const Partition& partition, int stage) {
  std::set<ValueId> all, read;
  for (const Parameter& parameter : partition.graph.parameters()) all.insert(parameter.value);
  for (std::size_t i = 0; i < partition.graph.nodes().size(); ++i) {
    const Node& node = partition.graph.nodes()[i];
    if (node.pass != Pass::kForward || partition.stage_of_node[i] != stage) continue;
    for (const ValueId input : node.inputs) {
      if (all.contains(input)) read.insert(input);
    }
  }
  return read;
}

bool has_gpus(const TrainingPlan& plan) {
  return std::ranges::any_of(plan.layout.device_places,
                             [](const transfer::DevicePlace& place) { return place.is_gpu; });
}

/// Of a transfer of a training step.
std::string path_text(const TrainingPlan& plan, std::uint32_t op) {
  if (!has_gpus(plan) || plan.layout.gpu_transfers == GpuTransfers::kHost) return "";
  const transfer::PathChoice choice = path_of(plan, op);
  if (choice.path == transfer::PathChoice::Path::kCollectives)
    return ", by " + plan.collectives.library;
  return ", through host memory: " + choice.reason;
}

std::string gpu_transfers_text(const TrainingPlan& plan) {
  const std::string line = describe_gpu_transfers(plan);
  if (line.empty()) return "";
  std::string text = fmt::format("\nbetween GPUs\n  {}\n", line);
  if (plan.layout.gpu_transfers == GpuTransfers::kHost) return text;
  if (!plan.collectives.groups.empty()) {
    text += "  communicators:";
    for (const transfer::CommunicatorGroup& group : plan.collectives.groups)
      text += " " + transfer::to_string(group);
    text += "\n";
  }
  std::set<std::string> reasons;
  for (const auto& [op, reason] : plan.collectives.staged.front()) reasons.insert(reason);
  for (const std::string& reason : reasons)
    text += "  others through host memory: " + reason + "\n";
  return text;
}

/// What the driver needs, and whether training goes on while a checkpoint passes through it.
std::string driver_text(const TrainingPlan& plan) {
  std::string text = fmt::format(
      "\ndriver\n  {} for checkpoints (checkpoint.buffer), which pass through it in {} part{}\n",
      format_bytes(checkpoint_buffer_bytes(plan.checkpoint)), plan.checkpoint.size(),
      plan.checkpoint.size() == 1 ? "" : "s");
  if (!plan.copies_checkpoints())
    return text + "  training stands still while one is written" +
           (plan.no_copies_because.empty() ? "" : ": " + plan.no_copies_because) + "\n";
  std::uint64_t most = 0;
  for (const Program& program : plan.checkpoint_copy)
    most = std::max(most, checkpoint_copy_bytes(plan, program.device));
  return text + fmt::format(
                    "  training goes on while one is written, from copies of up to {} in host "
                    "memory for a device, where a run "
                    "finds that much free\n",
                    format_bytes(most));
}

std::string schedule_text(const TrainingPlan& plan) {
  if (!plan.layout.searches()) return plan.schedule.name;
  return fmt::format("auto, which begins with {}", plan.schedule.name);
}

}  // namespace

transfer::PathChoice path_of(const TrainingPlan& plan, std::uint32_t op) {
  using Path = transfer::PathChoice::Path;
  if (has_gpus(plan) && plan.layout.gpu_transfers == GpuTransfers::kHost)
    return {Path::kStaged, "pipeline.gpu_transfers is host"};
  const auto staged = plan.collectives.staged.front().find(op);
  if (staged == plan.collectives.staged.front().end()) return {Path::kCollectives, ""};
  return {Path::kStaged, staged->second};
}

std::string describe_gpu_transfers(const TrainingPlan& plan) {
  if (!has_gpus(plan)) return "";
  if (plan.layout.gpu_transfers == GpuTransfers::kHost)
    return "through host memory (pipeline.gpu_transfers: host)";
  std::size_t carried = 0, all = 0;
  std::set<std::uint32_t> seen;
  for (const Program& program : plan.train.programs) {
    for (const Transfer& transfer : program.transfers) {
      if (transfer.kind == TransferKind::kNorm || !seen.insert(transfer.op).second) continue;
      ++all;
      carried += transfer.operations() != nullptr ? 1 : 0;
    }
  }
  if (all == 0) return "";
  return fmt::format("{} of {} transfers of a training step by {}", carried, all,
                     carried == 0 ? "the GPUs' own library" : plan.collectives.library);
}

std::string describe(const TrainingPlan& plan) {
  std::string text = "meshes\n";
  for (const DeviceMesh& mesh : plan.partition.meshes) {
    text += fmt::format("  {}:", to_string(mesh));
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const transfer::DeviceId device = mesh.devices()[rank];
      text += fmt::format(" {}=device {} on {}", device_name(mesh, rank), device,
                          plan.hosts[plan.topology.host_of(device).value()]);
    }
    text += "\n";
  }
  text += fmt::format("\nstages (schedule {}, {} microbatches)\n", schedule_text(plan),
                      plan.layout.microbatches);
  for (std::size_t stage = 0; stage < plan.layout.stages.size(); ++stage) {
    const StageConfig& config = plan.layout.stages[stage];
    const std::set<ValueId> parameters = parameters_of(plan.partition, stage);
    std::int64_t elements = 0;
    for (const ValueId parameter : parameters)
      elements += plan.partition.graph.value(parameter).type.elements();
    text += fmt::format("  {}: {} layers on {}, {} parameters in {} tensors{}\n", stage,
                        config.layers, plan.partition.meshes[config.mesh].name(), elements,
                        parameters.size(), config.recompute ? ", activations computed twice" : "");
  }
  text += "\nparameters\n";
  for (std::size_t m = 0; m < plan.partition.meshes.size(); ++m) {
    for (const LocalParameter& parameter : plan.partition.per_mesh[m].parameters) {
      const LocalValue& local = plan.partition.per_mesh[m].locals[parameter.value.value()];
      const Value& value = plan.partition.graph.value(local.value);
      text += fmt::format("  {:<32} {:<18} {} {}\n", value.name, to_string(value.type),
                          plan.partition.meshes[m].name(),
                          to_string(local.spec, plan.partition.meshes[m]));
    }
  }
  text += fmt::format("\nresharding ({}), per microbatch\n",
                      transfer::to_string(plan.layout.resharding));
  for (const PlannedEdge& planned : plan.train.edges) {
    const MeshEdge& edge = planned.edge;
    const Value& value = plan.partition.graph.value(edge.value);
    const auto side = [&](int mesh, LocalId local) {
      const std::size_t m = mesh;
      return plan.partition.meshes[m].name() +
             to_string(plan.partition.per_mesh[m].locals[local.value()].spec,
                       plan.partition.meshes[m]);
    };
    std::uint64_t sent = 0;
    for (const Program& program : plan.train.programs)
      sent += planned.plan.device_part(program.device).bytes_sent();
    text += fmt::format("  {} {} {}: {} -> {}, {} sent in {} flows{}\n", to_string(edge.pass),
                        value.name, to_string(value.type), side(edge.from_mesh, edge.source),
                        side(edge.to_mesh, edge.destination), format_bytes(sent),
                        planned.plan.flows.size(), path_text(plan, planned.op));
  }
  for (const TermTransfer& term : plan.train.terms) {
    const Parameter& parameter = plan.partition.graph.parameters()[term.parameter];
    text += fmt::format("  once per step: gradient of {}, term {}: {} -> {}\n",
                        plan.partition.graph.value(parameter.value).name, term.term,
                        plan.partition.meshes[term.from_mesh].name(),
                        plan.partition.meshes[term.to_mesh].name());
  }
  text += gpu_transfers_text(plan);
  text += driver_text(plan);
  text += "\ndevices\n";
  for (const Program& program : plan.train.programs) {
    std::uint64_t persistent = 0;
    for (const Persistent& block : program.persistents) persistent += block.bytes;
    text += fmt::format(
        "  {:<16} {} instructions a step, {} parameters, gradients and moments, {} activations\n",
        program.device_name, program.instructions.size(), format_bytes(persistent),
        format_bytes(program.arena_bytes));
  }
  return text;
}

}  // namespace weft::mesh

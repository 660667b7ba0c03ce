#include "mesh/plan/training_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/units.h"
#include "mesh/layouts/separate_vocabulary.h"
#include "mesh/plan/plan_memory.h"
#include "mesh/plan/schedule_choice.h"
#include "mesh/plan/spanning_mesh.h"
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

transfer::Network network_of(const ParallelConfig& layout, const std::vector<std::string>& hosts) {
  transfer::Network network =
      transfer::Network::uniform(hosts.size(), ParallelConfig::kUnknownLink);
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (const auto link = layout.links.find(hosts[i]); link != layout.links.end())
      network.hosts[i] = {{transfer::Nic{link->second, link->second}}};
  return network;
}

void check_layers(const ParallelConfig& layout, const Graph& graph) {
  if (layout.num_layers() == graph.num_blocks()) return;
  throw Error(ErrorCode::kInvalidConfig,
              fmt::format("the stages have {} layers together, but the model has {}; change "
                          "pipeline.stages or the model",
                          layout.num_layers(), graph.num_blocks()))
      .at("pipeline.stages");
}

/// Returns the schedule with forwards only, which keep all dependencies between them.
Schedule forwards_of(const Schedule& schedule) {
  Schedule forwards = schedule;
  forwards.name = "forwards of " + schedule.name;
  for (std::vector<Action>& actions : forwards.actors) {
    std::erase_if(actions, [](const Action& action) {
      return action.kind != ActionKind::kForward && action.kind != ActionKind::kInputForward &&
             action.kind != ActionKind::kVocabularyScores;
    });
  }
  return forwards;
}

void plan_checkpoint(TrainingPlan& plan, GatherFrom from) {
  const bool copies = from == GatherFrom::kCopies;
  plan.layout.checkpoint_copy_mode = copies ? CheckpointCopyMode::kYes : CheckpointCopyMode::kNo;
  plan.checkpoint = compile_checkpoint(plan.partition, plan.driver(), plan.topology,
                                       plan.layout.checkpoint_buffer, from);
  plan.checkpoint_copy = copies ? compile_checkpoint_copy(plan.checkpoint) : std::vector<Program>();
}

void plan_kept(TrainingPlan& plan, bool keeps) {
  plan.layout.snapshot_mode = keeps ? CheckpointCopyMode::kYes : CheckpointCopyMode::kNo;
  plan.snapshots = keeps ? compile_kept_state(plan.partition, plan.topology) : InMemoryCheckpoint();
}

/// Removes the state copies. Returns whether all devices then fit into pipeline.memory.
bool drop_snapshots_to_fit(TrainingPlan& plan) {
  if (plan.snapshots.empty()) return false;
  std::uint64_t most = 0;
  bool fits = true;
  for (const Program& program : plan.train.programs) {
    const std::uint64_t kept = snapshot_bytes(plan.snapshots, program.device);
    const std::uint64_t counted = is_gpu(plan, program.device) ? 0 : kept;
    fits = fits && device_memory(plan, program.device) - counted <= *plan.layout.memory;
    most = std::max(most, kept);
  }
  drop_kept_state(
      plan,
      fmt::format(
          "copies of the state take up to {} on a device and would exceed pipeline.memory, {}",
          format_bytes(most), format_bytes(*plan.layout.memory)));
  return fits;
}

/// Removes copies for checkpoints if all devices then fit into pipeline.memory. Returns whether
/// they do.
bool drop_copies_to_fit(TrainingPlan& plan) {
  if (!plan.copies_checkpoints()) return false;
  std::uint64_t most = 0;
  for (const Program& program : plan.train.programs) {
    const std::uint64_t copies = checkpoint_copy_bytes(plan, program.device);
    const std::uint64_t counted = is_gpu(plan, program.device) ? 0 : copies;
    if (device_memory(plan, program.device) - counted > *plan.layout.memory) return false;
    most = std::max(most, copies);
  }
  drop_checkpoint_copies(plan, fmt::format("a copy of parameters and moments takes up to {} on a "
                                           "device and would exceed pipeline.memory, {}",
                                           format_bytes(most), format_bytes(*plan.layout.memory)));
  return true;
}

constexpr const char* kMemoryKey = "pipeline.memory";

/// Calls `decide` for a mesh. Errors about "layout" get the key of the mesh's layout.
template <typename Decide>
auto with_mesh_errors(const MeshConfig& mesh, const Decide& decide) {
  try {
    return decide();
  } catch (const Error& error) {
    if (error.where() != "layout") throw;
    throw Error(error.code(), error.message()).at("meshes." + mesh.name + ".layout");
  }
}

FeatureSplits splits_of(const MeshConfig& config, const DeviceMesh& mesh) {
  if (config.own_strategy) return config.own_strategy->splits;
  return config.layout ? feature_splits(*config.layout, mesh) : FeatureSplits();
}

bool is_spanning(MeshId mesh, const ParallelConfig& layout) {
  return mesh.value() >= std::ssize(layout.meshes);
}

ShardingStrategy strategy_on(const MeshGraph& part, MeshId mesh, const ParallelConfig& layout) {
  if (is_spanning(mesh, layout)) return rules_strategy(part, spanning_rules());
  const MeshConfig& config = layout.meshes[mesh.value()];
  return with_mesh_errors(config, [&] {
    if (config.own_strategy) return strategy_of(part, *config.own_strategy);
    return config.layout ? layout_strategy(part, *config.layout, layout.microbatches)
                         : rules_strategy(part, layout.sharding);
  });
}

/// Moves the vocabulary's layers from the first and last stage to the spanning mesh.
TrainingGraph share_vocabulary(PartitionRequest& request, const TrainingGraph& model,
                               const ParallelConfig& layout) {
  SeparatedVocabulary separated = separate_vocabulary(model);
  const MeshId spanning(std::ssize(layout.meshes));
  StageCut& cut = request.cut;
  cut.vocabulary = VocabularyStages{cut.mesh_of_stage.push_back(spanning), {}};
  cut.stage_of_block.push_back(cut.vocabulary->output);
  if (separated.input) {
    cut.vocabulary->input = cut.mesh_of_stage.push_back(spanning);
    cut.stage_of_block.insert(cut.stage_of_block.begin(), *cut.vocabulary->input);
  }
  return std::move(separated.graph);
}

/// Sets the model, transformed for the layouts of the meshes.
void set_graph(PartitionRequest& request, TrainingGraph model, const ParallelConfig& layout) {
  request.cut = {};
  for (const int mesh : layout.mesh_of_stage()) request.cut.mesh_of_stage.push_back(MeshId(mesh));
  for (const int stage : layout.stage_of_layer()) request.cut.stage_of_block.emplace_back(stage);
  if (layout.vocabulary != VocabularyMode::kLast) model = share_vocabulary(request, model, layout);
  std::vector<FeatureSplits> by_block;
  for (const StageId stage : request.cut.stage_of_block) {
    const MeshId mesh = request.cut.mesh_of_stage[stage];
    const DeviceMesh& devices = request.meshes[mesh];
    if (is_spanning(mesh, layout)) {
      by_block.push_back(spanning_splits(devices, layout.vocabulary));
      continue;
    }
    const MeshConfig& config = layout.meshes[mesh.value()];
    by_block.push_back(with_mesh_errors(config, [&] { return splits_of(config, devices); }));
  }
  if (std::ranges::any_of(by_block, &FeatureSplits::any)) {
    // Attributes sizes that do not divide to the first mesh that splits features.
    MeshId first(0);
    for (std::size_t block = by_block.size(); block-- > 0;) {
      const MeshId mesh = request.cut.mesh_of_stage[request.cut.stage_of_block[block]];
      if (by_block[block].any() && !is_spanning(mesh, layout)) first = mesh;
    }
    model = with_mesh_errors(layout.meshes[first.value()],
                             [&] { return split_graph(model, by_block); });
  }
  request.graph = std::move(model.graph);
  request.loss = model.loss;
  request.gradients = std::move(model.gradients);
  const auto stage_of_node = place_nodes(request.graph, request.cut);
  request.strategies = {};
  for (const MeshId mesh : request.meshes.ids()) {
    const MeshGraph part{request.graph, request.meshes[mesh],
                         nodes_on(mesh, stage_of_node, request.cut)};
    request.strategies.push_back(strategy_on(part, mesh, layout));
  }
}

/// `network`: null for the layout's.
TrainingPlan make_plan(const ParallelConfig& layout, const ModelGraphs& model,
                       const MeshPlaces& places, const transfer::Network* network) {
  check_layers(layout, model.train.graph);
  TrainingPlan plan;
  plan.layout = layout;
  PartitionRequest request;
  DeviceNumbering numbering = number_devices(layout, places);
  request.meshes = std::move(numbering.meshes);
  if (layout.vocabulary != VocabularyMode::kLast)
    request.meshes.push_back(make_spanning_mesh(layout, request.meshes));
  plan.hosts = std::move(numbering.hosts);
  plan.topology = std::move(numbering.topology);
  plan.network = network != nullptr ? *network : network_of(layout, plan.hosts);
  set_graph(request, model.train, layout);
  plan.partition = partition(request);
  CompileOptions options;
  options.strategy = layout.resharding;
  options.lowering = layout.lowering;
  options.credits = layout.credits;
  options.payload = layout.payload;
  for (const StageConfig& stage : layout.stages) options.recompute.push_back(stage.recompute);
  options.network = plan.network;
  options.times = vocabulary_times(plan.partition, layout);
  CompileOptions validate_options = options;
  validate_options.name = kValidateProgram;
  plan_checkpoint(plan, layout.checkpoint_copy_mode == CheckpointCopyMode::kNo
                            ? GatherFrom::kParameters
                            : GatherFrom::kCopies);
  plan_kept(plan, layout.snapshot_mode != CheckpointCopyMode::kNo);
  set_graph(request, {model.validate, model.validate_loss, {}}, layout);
  const Partition forward_only = partition(request);
  for (Schedule& schedule :
       candidate_schedules(layout, stage_edges(plan.partition), options.times)) {
    plan.train = compile(plan.partition, schedule, plan.topology, options);
    plan.validate = compile(forward_only, forwards_of(schedule), plan.topology, validate_options);
    const std::array steps{&plan.train, &plan.validate};
    const bool through_host = layout.gpu_transfers == GpuTransfers::kHost;
    plan.collectives = use_device_collectives(
        steps, through_host ? std::vector<transfer::DeviceCapabilities>() : layout.device_places,
        {.deterministic = layout.deterministic});
    plan.schedule = std::move(schedule);
    if (!find_device_beyond_memory(plan)) return plan;
    if (layout.snapshot_mode == CheckpointCopyMode::kIfMemoryAllows && drop_snapshots_to_fit(plan))
      return plan;
    // Prefers pauses for checkpoints to a slower schedule.
    if (layout.checkpoint_copy_mode == CheckpointCopyMode::kIfMemoryAllows &&
        drop_copies_to_fit(plan))
      return plan;
  }
  const transfer::DeviceId device = *find_device_beyond_memory(plan);
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
                          layout.schedule == ParallelConfig::kAuto
                              ? "use more devices"
                              : "take a schedule that holds fewer microbatches"))
      .at(kMemoryKey);
}

/// Returns the layout with `gather` set for all meshes that leave it open, or nothing if none does.
std::optional<ParallelConfig> with_gather(const ParallelConfig& layout, GatherFrequency gather) {
  ParallelConfig result = layout;
  bool changed = false;
  for (MeshConfig& mesh : result.meshes) {
    if (!mesh.layout || mesh.layout->gather) continue;
    mesh.layout->gather = gather;
    changed = true;
  }
  return changed ? std::optional(std::move(result)) : std::nullopt;
}

/// Chooses to gather once per step if the memory limit allows it.
TrainingPlan make_plan_within_memory(const ParallelConfig& layout, const ModelGraphs& model,
                                     const MeshPlaces& places, const transfer::Network* network) {
  const auto per_microbatch = with_gather(layout, GatherFrequency::kMicrobatch);
  if (!per_microbatch) return make_plan(layout, model, places, network);
  if (layout.memory) {
    try {
      return make_plan(*with_gather(layout, GatherFrequency::kStep), model, places, network);
    } catch (const Error& error) {
      if (error.where() != kMemoryKey) throw;
    }
  }
  return make_plan(*per_microbatch, model, places, network);
}

}  // namespace

std::vector<const std::vector<Program>*> TrainingPlan::all_programs() const {
  std::vector<const std::vector<Program>*> all = {&train.programs, &validate.programs};
  for (const CheckpointBatch& batch : checkpoint)
    all.insert(all.end(), {&batch.gather, &batch.scatter});
  if (!checkpoint_copy.empty()) all.push_back(&checkpoint_copy);
  if (!snapshots.empty())
    for (const InMemoryCheckpoint::Slot& slot : snapshots.slots)
      all.insert(all.end(),
                 {&slot.snapshot, &slot.replicate_to_backup, &slot.restore_from_snapshot});
  return all;
}

MeshPlaces predict_places(const ParallelConfig& layout,
                          const std::vector<std::pair<std::string, std::uint32_t>>& hosts) {
  actors::DeviceAllocator allocator;
  for (const auto& [name, devices] : hosts) allocator.add_host(name, devices);
  MeshPlaces places;
  for (const MeshConfig& mesh : layout.meshes) {
    try {
      places.push_back(allocator.find_devices(request_of(mesh)));
    } catch (const Error& error) {
      throw Error(error.code(), error.message()).at("meshes." + mesh.name);
    }
    allocator.assign(places.back(), {mesh.name, 1});
  }
  return places;
}

DeviceNumbering number_devices(const ParallelConfig& layout, const MeshPlaces& places) {
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
    result.meshes.push_back(
        DeviceMesh(layout.meshes[m].name, layout.meshes[m].axes, std::move(devices)));
  }
  result.topology.host_of_device.emplace_back(hosts.size());
  hosts.emplace_back("driver");
  return result;
}

TrainingPlan make_training_plan(const ParallelConfig& layout, const ModelGraphs& model,
                                const MeshPlaces& places) {
  return make_plan_within_memory(layout, model, places, nullptr);
}

TrainingPlan make_training_plan(const ParallelConfig& layout, const ModelGraphs& model,
                                const MeshPlaces& places, const transfer::Network& network) {
  return make_plan_within_memory(layout, model, places, &network);
}

std::string write_strategy(const TrainingPlan& plan, MeshId mesh) {
  const Partition& partition = plan.partition;
  const DeviceMesh& devices = partition.meshes[mesh];
  const MeshGraph part{
      partition.graph, devices,
      nodes_on(mesh, partition.stage_of_node, {partition.mesh_of_stage, partition.stage_of_block})};
  return write_strategy(part, strategy_on(part, mesh, plan.layout),
                        splits_of(plan.layout.meshes[mesh.value()], devices));
}

std::string digest_of_steps(const TrainingPlan& plan) {
  std::string digests;
  for (const auto* programs : {&plan.train.programs, &plan.validate.programs}) {
    for (const Program& program : *programs) digests += sha256(encode(program));
  }
  return sha256(std::as_bytes(std::span(digests)));
}

void drop_checkpoint_copies(TrainingPlan& plan, std::string because) {
  plan_checkpoint(plan, GatherFrom::kParameters);
  plan.no_copies_reason = std::move(because);
}

void drop_kept_state(TrainingPlan& plan, std::string because) {
  plan_kept(plan, false);
  plan.no_snapshots_reason = std::move(because);
}

void check_compatible_layouts(const ParallelConfig& running, const ParallelConfig& other) {
  const auto differs = [&](const char* what) {
    throw_error(ErrorCode::kInvalidArgument,
                "the running job has other {}; restart it to change them", what);
  };
  const auto same_mesh = [](const MeshConfig& a, const MeshConfig& b) {
    return a.name == b.name && a.axes == b.axes;
  };
  const auto same_layout = [](const MeshConfig& a, const MeshConfig& b) {
    return a.layout == b.layout && a.own_strategy == b.own_strategy;
  };
  if (!std::ranges::equal(running.meshes, other.meshes, same_mesh)) differs("meshes");
  if (!std::ranges::equal(running.meshes, other.meshes, same_layout)) differs("layouts");
  if (running.sharding.axes != other.sharding.axes) differs("rules for sharding");
  if (running.mesh_of_stage() != other.mesh_of_stage()) differs("stages on its meshes");
  if (running.stage_of_layer() != other.stage_of_layer()) differs("layers in its stages");
  if (running.microbatches != other.microbatches) differs("microbatches");
  if (running.vocabulary != other.vocabulary) differs("vocabulary passes");
}

}  // namespace weft::mesh

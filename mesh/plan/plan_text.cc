#include "mesh/plan/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "core/base/units.h"
#include "mesh/plan/plan_memory.h"
#include "mesh/program/capture_segments.h"
#include "mesh/schedule/costs.h"

namespace weft::mesh {
namespace {

/// Returns the parameters that the stage's forward reads.
std::set<ValueId> parameters_of(const Partition& partition, StageId stage) {
  std::set<ValueId> all, read;
  for (const Parameter& parameter : partition.graph.parameters()) all.insert(parameter.value);
  for (const NodeId id : partition.stage_of_node.ids()) {
    const Node& node = partition.graph.node(id);
    if (node.pass != Pass::kForward || partition.stage_of_node[id] != stage) continue;
    for (const ValueId input : node.inputs) {
      if (all.contains(input)) read.insert(input);
    }
  }
  return read;
}

bool has_gpus(const TrainingPlan& plan) {
  return std::ranges::any_of(
      plan.conditions.device_places,
      [](const transfer::DeviceCapabilities& place) { return place.is_gpu; });
}

/// Describes the path of a transfer of a training step.
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

/// Describes the driver's memory, and whether training continues while a checkpoint is gathered.
std::string driver_text(const TrainingPlan& plan) {
  std::string text = fmt::format(
      "\ndriver\n  {} for checkpoints (checkpoint.buffer), which pass through it in {} part{}\n",
      format_bytes(checkpoint_buffer_bytes(plan.checkpoint)), plan.checkpoint.size(),
      plan.checkpoint.size() == 1 ? "" : "s");
  if (!plan.copies_checkpoints()) {
    const std::string why = plan.decisions.reason_declined(PlanQuestion::kCheckpointCopies);
    return text + "  training pauses while a checkpoint is written" +
           (why.empty() ? "" : ": " + why) + "\n";
  }
  std::uint64_t most = 0;
  for (const Program& program : plan.checkpoint_copy)
    most = std::max(most, checkpoint_copy_bytes(plan, program.device));
  return text + fmt::format(
                    "  training continues while a checkpoint is written, from copies of up to {} "
                    "per device in host memory, if that much is free\n",
                    format_bytes(most));
}

/// Describes how training recovers from a death.
std::string recovery_text(const TrainingPlan& plan) {
  const std::string why = plan.decisions.reason_declined(PlanQuestion::kSnapshots);
  if (!why.empty()) return "\nrecovery\n  from checkpoints only: " + why + "\n";
  if (plan.snapshots.empty()) return "";
  std::uint64_t most = 0, sent = 0;
  for (const Program& program : plan.train.programs)
    most = std::max(most, snapshot_bytes(plan.snapshots, program.device));
  std::string text = fmt::format(
      "\nrecovery\n  from copies of the state in memory (recovery.copy_every), of up to {} per "
      "device, if that much is free\n",
      format_bytes(most));
  for (const ReplicaGroup& group : plan.snapshots.groups) {
    if (!group.backup_device) continue;
    sent += group.bytes;
    text += fmt::format(
        "  {} keeps {} of {}\n", plan.train.programs[group.backup_device->value()].device_name,
        format_bytes(group.bytes), plan.train.programs[group.devices.front().value()].device_name);
  }
  return text +
         fmt::format("  each copy sends {} over the network while steps run\n", format_bytes(sent));
}

std::string schedule_text(const TrainingPlan& plan) {
  if (!plan.layout.searches()) return plan.schedule.name;
  return fmt::format("auto, which begins with {}", plan.schedule.name);
}

std::string meshes_text(const TrainingPlan& plan) {
  std::string text = "meshes\n";
  for (const MeshId id : plan.partition.meshes.ids()) {
    const DeviceMesh& mesh = plan.partition.meshes[id];
    text += fmt::format("  {}:", to_string(mesh));
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const transfer::DeviceId device = mesh.devices()[rank];
      text += fmt::format(" {}=device {} on {}", device_name(mesh, rank), device,
                          plan.hosts[plan.topology.host_of(device).value()]);
    }
    text += "\n";
    if (plan.partition.spans(id)) continue;
    const MeshConfig& config = plan.layout.meshes[id.value()];
    if (config.layout)
      text += fmt::format("    layout {}, gathered once per {}\n", config.layout->name,
                          to_string(config.layout->gather.value_or(GatherFrequency::kMicrobatch)));
    if (config.own_strategy)
      text += fmt::format("    strategy {}, gathered once per {}\n", config.own_strategy->source,
                          to_string(config.own_strategy->gather));
  }
  return text;
}

std::string stages_text(const TrainingPlan& plan) {
  const Duplex duplex = plan.layout.duplex;
  std::string text = fmt::format(
      "\nstages (schedule {}, {} microbatches{})\n", schedule_text(plan), plan.layout.microbatches,
      duplex == Duplex::kOff ? "" : fmt::format(", duplex {}", to_string(duplex)));
  for (const StageId stage : plan.partition.mesh_of_stage.ids()) {
    const std::set<ValueId> parameters = parameters_of(plan.partition, stage);
    std::int64_t elements = 0;
    for (const Parameter& parameter : plan.partition.graph.parameters())
      if (parameters.contains(parameter.value)) elements += num_elements(parameter.shape);
    const auto& vocabulary = plan.partition.vocabulary;
    const bool shared = vocabulary && stage >= vocabulary->output;
    const StageConfig config = shared ? StageConfig() : plan.layout.stages[stage.value()];
    const std::string what = !shared                       ? fmt::format("{} layers", config.layers)
                             : stage == vocabulary->output ? "the output layer"
                                                           : "the embedding";
    text += fmt::format("  {}: {} on {}, {} parameters in {} tensors{}\n", stage, what,
                        plan.partition.meshes[plan.partition.mesh_of_stage[stage]].name(), elements,
                        parameters.size(), config.recompute ? ", activations computed twice" : "");
  }
  return text;
}

std::string parameters_text(const Partition& partition) {
  std::string text = "\nparameters\n";
  for (const MeshId m : partition.meshes.ids()) {
    for (const LocalParameter& parameter : partition.per_mesh[m].parameters) {
      const LocalValue& local = partition.per_mesh[m].locals[parameter.value];
      const Value& value = partition.graph.value(local.value);
      const Shape& shape = partition.graph.parameters()[parameter.parameter].shape;
      text += fmt::format("  {:<32} {:<18} {} {}", value.name, to_string(value.type),
                          partition.meshes[m].name(), to_string(local.spec, partition.meshes[m]));
      if (shape != value.type.shape)
        text += fmt::format(", padded: {} as it is stored", weft::to_string(shape));
      text += "\n";
    }
  }
  return text;
}

std::string edge_text(const TrainingPlan& plan, const PlannedEdge& planned) {
  const MeshEdge& edge = planned.edge;
  const Value& value = plan.partition.graph.value(edge.value);
  const auto side = [&](MeshId mesh, LocalId local) {
    return plan.partition.meshes[mesh].name() +
           to_string(plan.partition.per_mesh[mesh].locals[local].spec, plan.partition.meshes[mesh]);
  };
  std::uint64_t sent = 0;
  for (const Program& program : plan.train.programs)
    sent += planned.plan.device_part(program.device).bytes_sent();
  return fmt::format("  {} {} {}: {} -> {}, {} sent in {} flows{}\n", to_string(edge.pass),
                     value.name, to_string(value.type), side(edge.from_mesh, edge.source),
                     side(edge.to_mesh, edge.destination), format_bytes(sent),
                     planned.plan.flows.size(), path_text(plan, planned.op));
}

std::string resharding_text(const TrainingPlan& plan) {
  std::string text = fmt::format("\nresharding ({}), per microbatch\n",
                                 transfer::to_string(plan.layout.resharding));
  for (const PlannedEdge& planned : plan.train.edges) text += edge_text(plan, planned);
  for (const TermTransfer& term : plan.train.terms) {
    const Parameter& parameter = plan.partition.graph.parameters()[term.parameter];
    text += fmt::format("  once per step: gradient of {}, term {}: {} -> {}\n",
                        plan.partition.graph.value(parameter.value).name, term.term,
                        plan.partition.meshes[term.from_mesh].name(),
                        plan.partition.meshes[term.to_mesh].name());
  }
  return text;
}

/// Returns the kinds and stages of all compounds of a schedule.
std::set<CompoundMembers> compounds_of(const Schedule& schedule) {
  std::set<CompoundMembers> compounds;
  for (const std::vector<Action>& actions : schedule.actors) {
    for (std::size_t begin = 0; begin < actions.size();) {
      const std::size_t end = end_of_compound(actions, begin);
      compounds.insert(compound_members(std::span(actions).subspan(begin, end - begin)));
      begin = end;
    }
  }
  return compounds;
}

/// Returns the stage and the kind of an action; "forward + 1, backward" behind it for other members
/// of its compound.
std::string members_text(const ActionListKey& key) {
  std::string text;
  for (const ListedAction& member : key) {
    if (text.empty() || member.stage != key.front().stage)
      text += fmt::format("{}{}, ", text.empty() ? "" : " + ", member.stage);
    else text += " + ";
    text += name_in_words(member.kind);
  }
  return text;
}

/// Describes the lists of the actions and compounds that use collectives of their mesh.
std::string actions_text(const TrainingPlan& plan) {
  struct Line {
    std::string name, seconds;
  };
  std::vector<Line> lines;
  std::set<CompoundMembers> missing = compounds_of(plan.schedule);
  for (const ActionListMap& lists : plan.train.lists) {
    for (const auto& listed : lists) {
      const ActionListKey& key = listed.first;
      const ActionList& one = listed.second;
      CompoundMembers members;
      for (const ListedAction& member : key)
        members.push_back({member.stage.value(), member.kind, member.microbatch});
      const bool moves = std::ranges::any_of(one.graph.steps, [](const ListedStep& step) {
        return step.lane == StepLane::kNetwork && step.seconds > 0 && !step.starts_itself;
      });
      // The first list of a compound is the one amid the step.
      if (!moves || missing.erase(members) == 0) continue;
      lines.push_back(
          {"stage " + members_text(key),
           fmt::format("{:>8}, of it {} waiting for collectives", format_seconds(one.list.seconds),
                       format_seconds(one.list.exposed))});
      if (key.size() > 1)
        lines.push_back({"", fmt::format("{:>8} with one member after the other",
                                         format_seconds(one.one_by_one_seconds))});
    }
  }
  if (lines.empty()) return "";
  std::size_t width = 0;
  for (const Line& line : lines) width = std::max(width, line.name.size());
  std::string text;
  for (const Line& line : lines)
    text += fmt::format("  {:<{}} {}\n", line.name, width, line.seconds);
  const double flops = plan.conditions.device_flops();
  std::string rate;
  if (flops > 0)
    rate = fmt::format(" for {}{:g} GFLOP/s", plan.conditions.flops_per_second ? "" : "an assumed ",
                       flops * 1e-9);
  return fmt::format("\nactions with collectives (forecast{})\n{}", rate, text);
}

std::string devices_text(const TrainingPlan& plan) {
  std::string text = "\ndevices\n";
  for (const Program& program : plan.train.programs) {
    std::uint64_t persistent = 0;
    for (const PersistentBlock& block : program.persistents) persistent += block.bytes;
    text += fmt::format(
        "  {:<16} {} instructions a step{}, {} parameters, gradients and moments, {} activations\n",
        program.device_name, program.instructions.size(),
        is_gpu(plan, program.device)
            ? fmt::format(" in {} captured segments", find_capture_segments(program).size())
            : "",
        format_bytes(persistent), format_bytes(program.arena_bytes));
  }
  return text;
}

}  // namespace

transfer::PathChoice path_of(const TrainingPlan& plan, std::uint32_t op) {
  using Path = transfer::PathChoice::Path;
  if (has_gpus(plan) && plan.layout.gpu_transfers == GpuTransfers::kHost)
    return {Path::kHostStaged, "pipeline.gpu_transfers is host"};
  const auto staged = plan.collectives.staged.front().find(op);
  if (staged == plan.collectives.staged.front().end()) return {Path::kCollectives, ""};
  return {Path::kHostStaged, staged->second};
}

std::string describe_gpu_transfers(const TrainingPlan& plan) {
  if (!has_gpus(plan)) return "";
  if (plan.layout.gpu_transfers == GpuTransfers::kHost)
    return "through host memory (pipeline.gpu_transfers: host)";
  std::size_t carried = 0, all = 0;
  std::set<std::uint32_t> seen;
  for (const Program& program : plan.train.programs) {
    for (const Transfer& transfer : program.transfers) {
      if (transfer.kind == TransferPurpose::kNorm || !seen.insert(transfer.op).second) continue;
      ++all;
      carried += transfer.library_share() != nullptr ? 1 : 0;
    }
  }
  if (all == 0) return "";
  return fmt::format("{} of {} transfers of a training step by {}", carried, all,
                     carried == 0 ? "the GPUs' own library" : plan.collectives.library);
}

std::string describe(const TrainingPlan& plan) {
  return meshes_text(plan) + stages_text(plan) + parameters_text(plan.partition) +
         resharding_text(plan) + actions_text(plan) + gpu_transfers_text(plan) + driver_text(plan) +
         recovery_text(plan) + devices_text(plan) + describe(plan.decisions);
}

}  // namespace weft::mesh

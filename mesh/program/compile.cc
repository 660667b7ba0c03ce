#include "mesh/program/compile.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "mesh/program/mesh_compiler.h"

namespace weft::mesh {
namespace {

/// The actor of the schedule that each mesh is. Throws unless stages of one mesh are one actor and the other way round.
std::vector<int> actors_of_meshes(const Partition& partition, const Schedule& schedule) {
  if (schedule.stages != static_cast<int>(partition.mesh_of_stage.size())) {
    throw_error(ErrorCode::kInvalidConfig, "schedule '{}' is for {} stages, but there are {}", schedule.name, schedule.stages,
                partition.mesh_of_stage.size());
  }
  std::vector<int> actor(partition.meshes.size(), -1);
  for (std::size_t stage = 0; stage < partition.mesh_of_stage.size(); ++stage) {
    int& known = actor[static_cast<std::size_t>(partition.mesh_of_stage[stage])];
    const int wanted = schedule.actor_of_stage[stage];
    if (known >= 0 && known != wanted) {
      throw_error(ErrorCode::kInvalidConfig,
                  "schedule '{}' runs stages on different actors that share mesh '{}'; give each stage a mesh of its own",
                  schedule.name, partition.meshes[static_cast<std::size_t>(partition.mesh_of_stage[stage])].name());
    }
    known = wanted;
  }
  for (std::size_t mesh = 0; mesh < actor.size(); ++mesh) {
    if (actor[mesh] < 0) throw_error(ErrorCode::kInvalidConfig, "mesh '{}' has no stage", partition.meshes[mesh].name());
  }
  return actor;
}

/// Programs know forward and backward; reduction and update stand at the end of every step without being asked for.
void check_kinds(const Schedule& schedule) {
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    for (const Action& action : schedule.actors[actor]) {
      if (action.kind == ActionKind::kForward || gives_input_grad(action.kind) || gives_weight_grad(action.kind)) continue;
      throw_error(ErrorCode::kInvalidConfig,
                  "schedule '{}', actor {}: {} can be simulated but not run; programs are made of F, B, I and W", schedule.name,
                  actor, to_string(action));
    }
  }
}

std::vector<transfer::DeviceId> all_devices(const Partition& partition) {
  std::set<transfer::DeviceId> devices;
  for (const DeviceMesh& mesh : partition.meshes) {
    for (const transfer::DeviceId device : mesh.devices()) {
      if (!devices.insert(device).second) {
        throw_error(ErrorCode::kInvalidConfig, "mesh '{}' uses a device that another mesh has", mesh.name());
      }
    }
  }
  return {devices.begin(), devices.end()};
}

/// Every device's row of norms to every device.
transfer::ReshardPlan plan_norms(const std::vector<transfer::DeviceId>& devices, std::int64_t parameters,
                                 const transfer::Topology& topology) {
  const auto rows = static_cast<std::int64_t>(devices.size());
  transfer::ReshardTask task{{DType::kF64, {rows, parameters}}, {{rows, parameters}, {}}, {{rows, parameters}, {}}};
  for (std::int64_t row = 0; row < rows; ++row) {
    task.source.shards.push_back({devices[static_cast<std::size_t>(row)], Region({{row, row + 1}, {0, parameters}})});
    task.destination.shards.push_back({devices[static_cast<std::size_t>(row)], Region::whole(task.type.shape)});
  }
  return transfer::plan_reshard(task, topology, transfer::Strategy::kSendRecv);
}

}  // namespace

Compiled compile(const Partition& partition, const Schedule& schedule, const transfer::Topology& topology,
                 const CompileOptions& options) {
  const std::vector<transfer::DeviceId> devices = all_devices(partition);
  const std::vector<int> actor_of_mesh = actors_of_meshes(partition, schedule);
  const bool training = std::any_of(partition.per_mesh.begin(), partition.per_mesh.end(), [](const MeshPartition& part) {
    return std::any_of(part.parameters.begin(), part.parameters.end(),
                       [](const LocalParameter& parameter) { return parameter.gradient.has_value(); });
  });
  std::vector<StageEdge> stage_edges;
  for (const MeshEdge& edge : partition.edges) {
    if (edge.pass == Pass::kForward) stage_edges.push_back({edge.from_stage, edge.to_stage});
  }
  validate(schedule, stage_edges, training);
  check_kinds(schedule);

  Compiled compiled;
  TransferOps ops;
  std::vector<std::uint32_t> edge_ops;
  for (const MeshEdge& edge : partition.edges) {
    const Value& value = partition.graph.value(edge.value);
    const auto side = [&](int mesh, LocalId local) {
      return shard_map(value.type.shape, partition.per_mesh[static_cast<std::size_t>(mesh)].locals[local.value()].spec,
                       partition.meshes[static_cast<std::size_t>(mesh)]);
    };
    const transfer::ReshardTask task{value.type, side(edge.from_mesh, edge.source), side(edge.to_mesh, edge.destination)};
    compiled.edges.push_back({edge, options.network ? transfer::plan_reshard(task, topology, *options.network, options.strategy)
                                                    : transfer::plan_reshard(task, topology, options.strategy)});
    edge_ops.push_back(ops.next());
  }
  const std::uint32_t norm_op = ops.next();
  for (std::size_t mesh = 0; mesh < partition.meshes.size(); ++mesh) {
    MeshCompiler compiler(partition, static_cast<int>(mesh), compiled.edges, edge_ops, topology, options, ops);
    compiler.emit(schedule.actors[static_cast<std::size_t>(actor_of_mesh[mesh])]);
    if (training) {
      const auto parameters = static_cast<std::int64_t>(partition.graph.parameters().size());
      compiler.emit_update(norm_op, plan_norms(devices, parameters, topology), devices);
    }
    for (Program& program : compiler.finish()) compiled.programs.push_back(std::move(program));
  }
  compiled.num_transfer_ops = ops.count();
  validate(compiled.programs);
  return compiled;
}

}  // namespace weft::mesh

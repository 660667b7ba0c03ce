#include "mesh/program/compile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "mesh/program/lanes.h"
#include "mesh/program/mesh_compiler.h"
#include "mesh/schedule/action_order.h"

namespace weft::mesh {
namespace {

/// The actor of the schedule that each mesh is. Throws unless the stages of a mesh are those of an
/// actor.
IndexedVector<MeshId, int> actors_of_meshes(const Partition& partition, const Schedule& schedule) {
  if (schedule.stages != std::ssize(partition.mesh_of_stage)) {
    throw_error(ErrorCode::kInvalidConfig, "schedule '{}' is for {} stages, but there are {}",
                schedule.name, schedule.stages, partition.mesh_of_stage.size());
  }
  IndexedVector<MeshId, int> actor(partition.meshes.size(), -1);
  for (const StageId stage : partition.mesh_of_stage.ids()) {
    const MeshId mesh = partition.mesh_of_stage[stage];
    int& known = actor[mesh];
    const int wanted = schedule.actor_of_stage[stage.value()];
    const std::string& name = partition.meshes[mesh].name();
    if (known >= 0 && known != wanted) {
      throw_error(ErrorCode::kInvalidConfig,
                  "schedule '{}' runs stages on actors {} and {} that both lie on mesh '{}'; give "
                  "each actor's stages a mesh of their "
                  "own, or take a schedule that runs several stages per actor",
                  schedule.name, known, wanted, name);
    }
    known = wanted;
  }
  std::map<int, MeshId> mesh_of_actor;
  for (const MeshId mesh : actor.ids()) {
    if (actor[mesh] < 0)
      throw_error(ErrorCode::kInvalidConfig, "mesh '{}' has no stage",
                  partition.meshes[mesh].name());
    const auto [other, is_new] = mesh_of_actor.try_emplace(actor[mesh], mesh);
    if (is_new) continue;
    throw_error(ErrorCode::kInvalidConfig,
                "schedule '{}' runs stages on one actor ({}) that lie on two meshes, '{}' and '{}'",
                schedule.name, actor[mesh], partition.meshes[other->second].name(),
                partition.meshes[mesh].name());
  }
  return actor;
}

/// Refuses what programs cannot do: vocabulary passes, and a stage's update while there is anything
/// left to do, as all stages wait for the norm of all gradients.
void check_kinds(const Schedule& schedule) {
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    const Action* update = nullptr;
    for (const Action& action : schedule.actors[actor]) {
      if (action.kind == ActionKind::kVocabularyScores ||
          action.kind == ActionKind::kVocabularyGrads) {
        throw_error(ErrorCode::kInvalidConfig,
                    "schedule '{}', actor {}: {} is a vocabulary pass; these can be simulated "
                    "(weft schedule) but not run. Remove S "
                    "and T: in a run the last stage computes its output layer in F and B",
                    schedule.name, actor, to_string(action));
      }
      if (action.kind == ActionKind::kOptimizer) {
        update = &action;
      } else if (update != nullptr) {
        throw_error(ErrorCode::kInvalidConfig,
                    "schedule '{}', actor {}: {} stands after {}, but in a run all stages take "
                    "their step together, when the norm "
                    "of all gradients is known; move OPT to the end of the row",
                    schedule.name, actor, to_string(action), to_string(*update));
      }
    }
  }
}

std::vector<transfer::DeviceId> all_devices(const Partition& partition) {
  std::set<transfer::DeviceId> devices;
  for (const DeviceMesh& mesh : partition.meshes) {
    for (const transfer::DeviceId device : mesh.devices()) {
      if (!devices.insert(device).second) {
        throw_error(ErrorCode::kInvalidConfig, "mesh '{}' uses a device that another mesh has",
                    mesh.name());
      }
    }
  }
  return {devices.begin(), devices.end()};
}

/// Every device's row of norms to every device.
transfer::ReshardPlan plan_norms(const std::vector<transfer::DeviceId>& devices,
                                 std::int64_t parameters, const transfer::Topology& topology) {
  const std::int64_t rows = devices.size();
  transfer::ReshardTask task{
      {DType::kF64, {rows, parameters}}, {{rows, parameters}, {}}, {{rows, parameters}, {}}};
  for (std::int64_t row = 0; row < rows; ++row) {
    task.source.shards.push_back({devices[row], Region({{row, row + 1}, {0, parameters}})});
    task.destination.shards.push_back({devices[row], Region::whole(task.type.shape)});
  }
  return transfer::plan_reshard(task, topology, transfer::Strategy::kSendRecv);
}

transfer::ReshardPlan plan_between(const transfer::ReshardTask& task,
                                   const transfer::Topology& topology,
                                   const CompileOptions& options) {
  return options.network
             ? transfer::plan_reshard(task, topology, *options.network, options.strategy)
             : transfer::plan_reshard(task, topology, options.strategy);
}

/// The resharding of a value between two specs, each on its mesh: of the value itself, or of a
/// stand-in of its rank that has one element for each shard of either side.
transfer::ReshardTask task_between(const TensorType& type, const Spec& from,
                                   const DeviceMesh& from_mesh, const Spec& to,
                                   const DeviceMesh& to_mesh, Payload payload) {
  TensorType carried = type;
  for (std::size_t d = 0; d < type.shape.size() && payload == Payload::kSignals; ++d) {
    const auto ways = [&](const Spec& spec, const DeviceMesh& mesh) {
      std::int64_t product = 1;
      for (const int axis : spec.dims[d]) product *= mesh.axes()[axis].size;
      return product;
    };
    carried.shape[d] = std::lcm(ways(from, from_mesh), ways(to, to_mesh));
  }
  return {carried, shard_map(carried.shape, from, from_mesh),
          shard_map(carried.shape, to, to_mesh)};
}

/// Every term of a shared parameter from the mesh that computes it to all others that hold the
/// parameter.
std::vector<TermTransfer> plan_terms(const Partition& partition, const transfer::Topology& topology,
                                     const CompileOptions& options, TransferOps& ops) {
  struct Holder {
    MeshId mesh;
    const LocalParameter* parameter = nullptr;
  };
  std::map<int, std::vector<Holder>> holders;
  for (const MeshId mesh : partition.per_mesh.ids()) {
    for (const LocalParameter& parameter : partition.per_mesh[mesh].parameters) {
      holders[parameter.parameter].push_back({mesh, &parameter});
    }
  }
  const auto spec_of = [&](const Holder& holder) {
    return partition.per_mesh[holder.mesh].locals[holder.parameter->value].spec;
  };
  const auto mesh_of = [&](const Holder& holder) { return partition.meshes[holder.mesh]; };
  std::vector<TermTransfer> transfers;
  for (const auto& [parameter, all] : holders) {
    const Parameter& logical = partition.graph.parameters()[parameter];
    const TensorType gradient{DType::kF32, partition.graph.value(logical.value).type.shape};
    for (const Holder& from : all) {
      for (const GradientTerm& term : from.parameter->terms) {
        for (const Holder& to : all) {
          if (to.mesh == from.mesh) continue;
          const transfer::ReshardTask task = task_between(
              gradient, spec_of(from), mesh_of(from), spec_of(to), mesh_of(to), options.payload);
          transfers.push_back({parameter, term.index, from.mesh, to.mesh, ops.next(),
                               plan_between(task, topology, options)});
        }
      }
    }
  }
  return transfers;
}

using MeshCompilers = IndexedVector<MeshId, std::unique_ptr<MeshCompiler>>;

/// Runs every actor's list by itself: nothing but first uses ties them together.
void emit_lanes(MeshCompilers& compilers, const Schedule& schedule) {
  for (auto& compiler : compilers) {
    compiler->post_first_receives();
    for (std::size_t i = 0; i < schedule.actors[compiler->actor()].size(); ++i)
      compiler->emit_action(i);
  }
}

/// Walks one order of all actions and transfers.
void emit_safe(MeshCompilers& compilers, const std::vector<PlannedEdge>& edges,
               const std::vector<OrderedAction>& order) {
  const auto run = [&](const ActionPlace& place) {
    const auto compiler =
        std::find_if(compilers.begin(), compilers.end(),
                     [&](const auto& candidate) { return candidate->actor() == place.actor; });
    (*compiler)->emit_action(place.index);
    return (*compiler)->take_outgoing();
  };
  const auto move = [&](const OutgoingTensor& outgoing) {
    const MeshEdge& edge = edges[outgoing.edge].edge;
    compilers[edge.from_mesh]->transfer_now(outgoing);
    compilers[edge.to_mesh]->transfer_now(outgoing);
  };
  walk_total_order(order, run, move);
}

}  // namespace

std::vector<StageEdge> stage_edges(const Partition& partition) {
  const Graph& graph = partition.graph;
  std::map<std::pair<StageId, StageId>, std::set<ValueId>> values;  // By (from, to): what crosses.
  for (const NodeId id : partition.stage_of_node.ids()) {
    const Node& node = graph.node(id);
    if (node.pass != Pass::kForward) continue;
    for (const ValueId input : node.inputs) {
      const auto producer = graph.value(input).producer;
      if (!producer) continue;
      const StageId from = partition.stage_of_node[*producer], to = partition.stage_of_node[id];
      if (from != to) values[{from, to}].insert(input);
    }
  }
  std::vector<StageEdge> edges;
  for (const auto& [ends, carried] : values) {
    std::uint64_t bytes = 0;
    for (const ValueId value : carried) bytes += graph.value(value).type.bytes();
    edges.push_back({ends.first.value(), ends.second.value(), bytes});
  }
  return edges;
}

Compiled compile(const Partition& partition, const Schedule& schedule,
                 const transfer::Topology& topology, const CompileOptions& options) {
  const std::vector<transfer::DeviceId> devices = all_devices(partition);
  const IndexedVector<MeshId, int> actor_of_mesh = actors_of_meshes(partition, schedule);
  const bool training = std::any_of(
      partition.per_mesh.begin(), partition.per_mesh.end(), [](const MeshPartition& part) {
        return std::any_of(
            part.parameters.begin(), part.parameters.end(),
            [](const LocalParameter& parameter) { return !parameter.terms.empty(); });
      });
  const std::vector<StageEdge> data = stage_edges(partition);
  check_kinds(schedule);
  validate(schedule, data, training);

  Compiled compiled;
  TransferOps ops;
  for (const MeshEdge& edge : partition.edges) {
    const MeshId from = edge.from_mesh, to = edge.to_mesh;
    const transfer::ReshardTask task = task_between(
        partition.graph.value(edge.value).type, partition.per_mesh[from].locals[edge.source].spec,
        partition.meshes[from], partition.per_mesh[to].locals[edge.destination].spec,
        partition.meshes[to], options.payload);
    compiled.edges.push_back({edge, plan_between(task, topology, options), ops.next()});
  }
  const std::uint32_t norm_op = ops.next();
  compiled.terms = plan_terms(partition, topology, options, ops);
  const std::vector<OrderedAction> order = order_actions(schedule, data);
  const std::vector<Lane> lanes =
      plan_lanes(partition, schedule, actor_of_mesh, ActionHistory(schedule, data, order));
  MeshCompilers compilers;
  for (const MeshId mesh : partition.meshes.ids()) {
    compilers.push_back(std::make_unique<MeshCompiler>(partition, mesh, schedule,
                                                       actor_of_mesh[mesh], compiled.edges, lanes,
                                                       topology, options, ops));
  }
  if (options.lowering == Lowering::kSafe) {
    emit_safe(compilers, compiled.edges, order);
  } else {
    emit_lanes(compilers, schedule);
  }
  if (training) {
    compiled.norms = plan_norms(devices, partition.graph.parameters().size(), topology);
  }
  for (auto& compiler : compilers) {
    if (training) compiler->emit_update(compiled.terms, norm_op, compiled.norms, devices);
    for (Program& program : compiler->finish()) compiled.programs.push_back(std::move(program));
  }
  compiled.num_transfer_ops = ops.count();
  compiled.in_mesh = ops.take_in_mesh();
  validate(compiled.programs);
  return compiled;
}

}  // namespace weft::mesh

#include "mesh/program/compile.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "mesh/program/internal/mesh_compiler.h"
#include "mesh/program/internal/step_emitter.h"
#include "mesh/program/lanes.h"
#include "mesh/schedule/action_order.h"

namespace weft::mesh {
namespace {

/// Returns the actor of each device. Throws unless each mesh has the stages of exactly one actor.
ActorsOfMeshes actors_of_meshes(const Partition& partition, const Schedule& schedule) {
  if (schedule.stages != partition.num_schedule_stages()) {
    throw_error(ErrorCode::kInvalidConfig,
                "schedule '{}' has {} stages, but the run has {}; choose a schedule with that "
                "number of stages",
                schedule.name, schedule.stages, partition.num_schedule_stages());
  }
  IndexedVector<MeshId, int> actor(partition.meshes.size(), -1);
  for (int s = 0; s < schedule.stages; ++s) {
    const MeshId mesh = partition.mesh_of_stage[StageId(s)];
    int& known = actor[mesh];
    const int wanted = schedule.actor_of_stage[s];
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
  std::map<transfer::DeviceId, int> actor_of_device;
  ActorsOfMeshes result(partition.meshes.size());
  for (const MeshId mesh : actor.ids()) {
    if (partition.spans(mesh)) continue;
    if (actor[mesh] < 0)
      throw_error(ErrorCode::kInvalidConfig, "mesh '{}' has no stage",
                  partition.meshes[mesh].name());
    result[mesh].assign(partition.meshes[mesh].size(), actor[mesh]);
    for (const transfer::DeviceId device : partition.meshes[mesh].devices())
      actor_of_device[device] = actor[mesh];
    const auto [other, is_new] = mesh_of_actor.try_emplace(actor[mesh], mesh);
    if (is_new) continue;
    throw_error(ErrorCode::kInvalidConfig,
                "schedule '{}' runs stages on one actor ({}) that lie on two meshes, '{}' and '{}'",
                schedule.name, actor[mesh], partition.meshes[other->second].name(),
                partition.meshes[mesh].name());
  }
  if (const auto spanning = partition.spanning_mesh()) {
    for (const transfer::DeviceId device : partition.meshes[*spanning].devices())
      result[*spanning].push_back(actor_of_device.at(device));
  }
  return result;
}

/// Throws if the schedule's vocabulary passes do not match the partition. Throws if an action
/// follows a stage's OPT, because all stages wait for the norm of all gradients.
void check_kinds(const Partition& partition, const Schedule& schedule) {
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    const Action* update = nullptr;
    bool scores = false, input = false;
    for (const Action& action : schedule.actors[actor]) {
      scores |= action.kind == ActionKind::kVocabularyScores;
      input |= action.kind == ActionKind::kInputForward;
      if (is_vocabulary_pass(action.kind) && !partition.vocabulary) {
        throw_error(ErrorCode::kInvalidConfig,
                    "schedule '{}', actor {}: {} is a vocabulary pass, but here the first stage "
                    "computes the embedding and the last the output layer: set "
                    "pipeline.vocabulary to vocab-1 or vocab-2, or remove S, T, IF and IB",
                    schedule.name, actor, to_string(action));
      }
      if (action.kind == ActionKind::kOptimizer) {
        update = &action;
      } else if (update != nullptr) {
        throw_error(
            ErrorCode::kInvalidConfig,
            "schedule '{}', actor {}: {} follows {}, but all stages take their optimizer step "
            "together, after the norm of all gradients is known; move OPT to the end of the row",
            schedule.name, actor, to_string(action), to_string(*update));
      }
    }
    if (!partition.vocabulary) continue;
    if (!scores || (partition.vocabulary->input && !input)) {
      throw_error(ErrorCode::kInvalidConfig,
                  "schedule '{}', actor {}: there is no {}, but all devices share the "
                  "vocabulary: add the passes, or set pipeline.vocabulary to last",
                  schedule.name, actor, scores ? "IF" : "S");
    }
  }
}

std::vector<transfer::DeviceId> all_devices(const Partition& partition) {
  std::set<transfer::DeviceId> devices;
  for (const MeshId id : partition.meshes.ids()) {
    const DeviceMesh& mesh = partition.meshes[id];
    for (const transfer::DeviceId device : mesh.devices()) {
      if (!devices.insert(device).second && !partition.spans(id)) {
        throw_error(
            ErrorCode::kInvalidConfig,
            "mesh '{}' shares a device with another mesh; give each mesh devices of its own",
            mesh.name());
      }
    }
  }
  return {devices.begin(), devices.end()};
}

/// Plans the exchange of norms: every device's row to every device.
transfer::ReshardPlan plan_norms(const std::vector<transfer::DeviceId>& devices,
                                 std::int64_t parameters, const transfer::Topology& topology) {
  const std::int64_t rows = devices.size();
  transfer::ReshardTask task{
      {DType::kF64, {rows, parameters}}, {{rows, parameters}, {}}, {{rows, parameters}, {}}};
  for (std::int64_t row = 0; row < rows; ++row) {
    task.source.shards.push_back({devices[row], Region({{row, row + 1}, {0, parameters}})});
    task.destination.shards.push_back({devices[row], Region::whole(task.type.shape)});
  }
  return transfer::plan_reshard(task, topology, transfer::ReshardAlgorithm::kSendRecv);
}

transfer::ReshardPlan plan_between(const transfer::ReshardTask& task,
                                   const transfer::Topology& topology,
                                   const CompileOptions& options) {
  return options.network
             ? transfer::plan_reshard(task, topology, *options.network, options.strategy)
             : transfer::plan_reshard(task, topology, options.strategy);
}

/// Returns the terms whose sum is the value, in rank order: one term unless the spec is partial.
std::vector<transfer::ShardMap> terms_of(const Shape& shape, const Spec& spec,
                                         const DeviceMesh& mesh) {
  Spec whole = spec;
  whole.partial.clear();
  std::vector<transfer::ShardMap> terms(num_parts(spec.partial, mesh), {shape, {}});
  for (const transfer::Shard& shard : shard_map(shape, whole, mesh).shards) {
    const Coordinate at = mesh.coordinate(*mesh.rank_of(shard.device));
    std::int64_t term = 0;
    for (const int axis : spec.partial) term = term * mesh.axes()[axis].size + at[axis];
    terms[term].shards.push_back(shard);
  }
  return terms;
}

/// Returns the resharding task of a value between two specs, each on its mesh. With
/// Payload::kSignals the tensor is a stand-in of the same rank that has one element for each shard
/// of either side.
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
  transfer::ReshardTask task{carried, {}, shard_map(carried.shape, to, to_mesh)};
  std::vector<transfer::ShardMap> terms = terms_of(carried.shape, from, from_mesh);
  task.source = std::move(terms.front());
  task.addends.assign(std::make_move_iterator(terms.begin() + 1),
                      std::make_move_iterator(terms.end()));
  return task;
}

/// Plans the transfer of every term of a shared parameter from the mesh that computes it to all
/// other meshes that hold the parameter.
std::vector<TermTransfer> plan_terms(const Partition& partition, const transfer::Topology& topology,
                                     const CompileOptions& options, TransferNumbers& ops) {
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

/// Emits the end of a training step on one device: the norm of all gradients, and the update.
/// `norms`: plan that sends every device's row of norms to every device.
void emit_update(Emitter& emitter, transfer::DeviceId device, std::uint32_t op,
                 const transfer::ReshardPlan& norms) {
  emitter.wait_for_all();
  const Shape& shape = norms.tasks.front().type.shape;
  const TensorType row{DType::kF64, {1, shape[1]}}, table{DType::kF64, shape};
  const auto on_host = [&](const std::string& name, const TensorType& type) {
    return emitter.add_persistent_buffer(emitter.persistent(name, type.bytes(), MemoryKind::kHost),
                                         0, type);
  };
  const std::uint32_t own = on_host("norms/own", row), all = on_host("norms/all", table);
  emitter.norm(own);
  const std::uint32_t gather =
      emitter.add_transfer({"norms", TransferPurpose::kNorm, op, norms.device_part(device)});
  emitter.wait(emitter.start(gather, -1, own, all));
  emitter.update(all);
}

}  // namespace

std::vector<StageEdge> stage_edges(const Partition& partition) {
  const Graph& graph = partition.graph;
  // Values that cross, by (from, to).
  std::map<std::pair<StageId, StageId>, std::set<ValueId>> values;
  for (const NodeId id : partition.stage_of_node.ids()) {
    const Node& node = graph.node(id);
    if (node.pass != Pass::kForward) continue;
    for (const ValueId input : node.inputs) {
      const auto producer = graph.value(input).producer;
      if (!producer) continue;
      const StageId from = partition.stage_of_node[*producer], to = partition.stage_of_node[id];
      const int stages = partition.num_schedule_stages();
      if (from.value() >= stages || to.value() >= stages) continue;
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
  const ActorsOfMeshes actors = actors_of_meshes(partition, schedule);
  const bool training = std::any_of(
      partition.per_mesh.begin(), partition.per_mesh.end(), [](const MeshPartition& part) {
        return std::any_of(
            part.parameters.begin(), part.parameters.end(),
            [](const LocalParameter& parameter) { return !parameter.terms.empty(); });
      });
  const std::vector<StageEdge> data = stage_edges(partition);
  check_kinds(partition, schedule);
  validate(schedule, data, training);

  Compiled compiled;
  TransferNumbers ops;
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
  const std::vector<OrderedAction> order = order_actions(schedule, data, options.times);
  const std::vector<Lane> lanes =
      plan_lanes(partition, schedule, actors, ActionHistory(schedule, data, order), order);
  std::map<transfer::DeviceId, Emitter> emitters;
  const CompileInputs inputs{partition, schedule,       actors,   compiled.edges,
                             lanes,     compiled.terms, topology, options};
  BuffersOfMeshes buffers;
  MeshCompilers compilers;
  for (const MeshId mesh : partition.meshes.ids())
    compilers.push_back(std::make_unique<MeshCompiler>(inputs, mesh, ops, emitters, buffers));
  StepEmitter step(partition, schedule, compilers, emitters, actors, order);
  if (options.lowering == Lowering::kSafe) {
    step.emit_safe(compiled.edges);
  } else {
    step.emit_lanes();
  }
  if (training) {
    compiled.norms = plan_norms(devices, partition.graph.parameters().size(), topology);
    for (auto& [device, emitter] : emitters) emitter.end_actions();
    for (auto& compiler : compilers) compiler->emit_gradients();
  }
  for (const MeshId mesh : partition.meshes.ids()) {
    if (partition.spans(mesh)) continue;
    for (const transfer::DeviceId device : partition.meshes[mesh].devices()) {
      Emitter& emitter = emitters.at(device);
      if (training) emit_update(emitter, device, norm_op, compiled.norms);
      emitter.wait_for_all();
      compiled.programs.push_back(emitter.finish());
    }
  }
  for (auto& compiler : compilers) compiled.lists.push_back(compiler->lists.take());
  compiled.num_transfer_ops = ops.count();
  compiled.in_mesh = ops.take_in_mesh();
  validate(compiled.programs);
  return compiled;
}

}  // namespace weft::mesh

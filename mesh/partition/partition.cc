#include "mesh/partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/ops/op_definition.h"

namespace weft::mesh {
namespace {

/// Builder of one Partition. Used once.
class Partitioner {
 public:
  explicit Partitioner(const PartitionRequest& request) : request_(request), graph_(request.graph) {
    result_.graph = request.graph;
    result_.meshes = request.meshes;
    result_.mesh_of_stage = request.cut.mesh_of_stage;
    result_.stage_of_block = request.cut.stage_of_block;
    result_.vocabulary = request.cut.vocabulary;
    result_.stage_of_node = place_nodes(graph_, request.cut);
    result_.per_mesh.resize(request.meshes.size());
    for (const MeshId mesh : request.meshes.ids())
      part(mesh).gather = request.strategies[mesh].gather;
    result_.loss = request.loss;
    known_.resize(request.meshes.size());
  }

  Partition run() {
    place_parameters();
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (is_product(node.op.kind))
        products_[{stage_of(NodeId(i)), node.pass == Pass::kForward}].push_back(NodeId(i));
    }
    for (const Pass pass : {Pass::kForward, Pass::kInputGrad, Pass::kWeightGrad}) {
      for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
        if (graph_.nodes()[i].pass == pass) lower(NodeId(i));
      }
    }
    finish_loss();
    move_loss_to_its_gradient();
    attach_gradients();
    return std::move(result_);
  }

 private:
  StageId stage_of(NodeId node) const { return result_.stage_of_node[node]; }
  MeshId mesh_of(NodeId node) const { return request_.cut.mesh_of_stage[stage_of(node)]; }
  const DeviceMesh& device_mesh(MeshId mesh) const { return request_.meshes[mesh]; }
  MeshPartition& part(MeshId mesh) { return result_.per_mesh[mesh]; }
  const LocalValue& local(MeshId mesh, LocalId id) const {
    return result_.per_mesh[mesh].locals[id];
  }

  const Spec& home(MeshId mesh, ValueId value) const {
    const auto& homes = request_.strategies[mesh].storage_specs;
    const auto found = homes.find(value);
    WEFT_CHECK(found != homes.end(), "'{}' has no home on mesh {}", graph_.value(value).name,
               device_mesh(mesh).name());
    return found->second;
  }

  /// Copy of a value on a mesh.
  struct AvailableValue {
    LocalId id;
    /// Stage that made it for its own use. Absent: every stage on the mesh can use it.
    std::optional<StageId> private_to;
    int moves = 0;           ///< Moves between the op's output and this copy.
    bool in_forward = true;  ///< True if made in a forward.
    double order = -2;       ///< Step::order of the step that makes it; -2: before all steps.
  };

  LocalId add_local(MeshId mesh, ValueId value, Spec spec, LocalOrigin origin) {
    return add_local(mesh, value, std::move(spec), origin, AvailableValue());
  }
  LocalId add_local(MeshId mesh, ValueId value, Spec spec, LocalOrigin origin,
                    AvailableValue known) {
    known.id = part(mesh).locals.push_back({value, std::move(spec), origin});
    known_[mesh][value].push_back(known);
    return known.id;
  }

  /// Returns whether the copy is available in this pass. With GatherFrequency::kUse, backward
  /// passes find only the homes of what a forward has made.
  bool is_there(MeshId mesh, const AvailableValue& known, Pass pass) const {
    const bool same_direction = known.in_forward == (pass == Pass::kForward);
    if (same_direction && known.order > static_cast<double>(lowering_.value())) return false;
    const ShardingStrategy& strategy = request_.strategies[mesh];
    if (strategy.gather != GatherFrequency::kUse || !known.in_forward || pass == Pass::kForward)
      return true;
    const LocalValue& value = local(mesh, known.id);
    const auto home = strategy.storage_specs.find(value.value);
    return home == strategy.storage_specs.end() || home->second == value.spec;
  }

  /// Places each parameter on the meshes whose forward nodes read it.
  void place_parameters() {
    std::map<ValueId, std::vector<MeshId>> homes;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (node.pass != Pass::kForward) continue;
      const MeshId mesh = mesh_of(NodeId(i));
      for (const ValueId input : node.inputs) {
        if (graph_.value(input).producer) continue;
        std::vector<MeshId>& meshes = homes[input];
        if (std::find(meshes.begin(), meshes.end(), mesh) == meshes.end()) meshes.push_back(mesh);
      }
    }
    for (std::size_t i = 0; i < graph_.parameters().size(); ++i) {
      const Parameter& parameter = graph_.parameters()[i];
      const Value& value = graph_.value(parameter.value);
      const auto at = homes.find(parameter.value);
      if (at == homes.end())
        throw_error(ErrorCode::kInvalidConfig,
                    "no op uses parameter '{}'; remove it from the model", value.name);
      for (const MeshId mesh : at->second) {
        const LocalId id =
            add_local(mesh, parameter.value, home(mesh, parameter.value), LocalOrigin::kParameter);
        part(mesh).parameters.push_back({static_cast<int>(i), id, mesh == at->second.front(), {}});
      }
    }
  }

  /// Returns the first copy of the value on this mesh. If there is none, adds its receipt or, for a
  /// data input, its reading.
  LocalId first_copy(MeshId mesh, ValueId id, StageId stage) {
    auto& known = known_[mesh];
    if (const auto found = known.find(id); found != known.end()) return found->second.front().id;
    const Value& value = graph_.value(id);
    const Spec& spec = home(mesh, id);
    if (!value.producer) return add_local(mesh, id, spec, LocalOrigin::kInput);
    const Pass pass = graph_.node(*value.producer).pass;
    const MeshId from = mesh_of(*value.producer);
    WEFT_CHECK(from != mesh, "'{}' is used before it is computed", value.name);
    const LocalId made = known_[from].at(id).front().id;
    const LocalId source = result_.spans(from) ? made : without_partial_sums(from, made);
    const LocalId destination = add_local(mesh, id, spec, LocalOrigin::kReceived);
    result_.edges.push_back(
        {id, from, mesh, stage_of(*value.producer), stage, pass, source, destination});
    return destination;
  }

  /// Returns the value without partial sums. The mesh that computes it sums it, for all users.
  LocalId without_partial_sums(MeshId mesh, LocalId id) {
    const LocalValue& from = local(mesh, id);
    if (!from.spec.is_partial()) return id;
    for (const AvailableValue& known : known_[mesh][from.value]) {
      if (!local(mesh, known.id).spec.is_partial() && !known.private_to) return known.id;
    }
    Spec spec = from.spec;
    spec.partial.clear();
    const auto producer = graph_.value(from.value).producer;
    WEFT_CHECK(producer.has_value(), "'{}' is partial but not computed",
               graph_.value(from.value).name);
    return in_spec(mesh, from.value, spec, stage_of(*producer), graph_.node(*producer).pass);
  }

  /// Returns the value in exactly this spec, moved from the cheapest available copy if necessary.
  LocalId in_spec(MeshId mesh, ValueId value, const Spec& spec, StageId stage, Pass pass) {
    const LocalId first = first_copy(mesh, value, stage);
    const Shape& shape = graph_.value(value).type.shape;
    std::optional<AvailableValue> source;
    std::vector<Move> moves;
    for (const AvailableValue& known : known_[mesh][value]) {
      if (known.private_to && known.private_to != stage) continue;
      if (!is_there(mesh, known, pass)) continue;
      const Spec& held = local(mesh, known.id).spec;
      if (held == spec) return known.id;
      // Every stage can use a sum, so it is made from a copy available to all.
      const bool sums = held.partial != spec.partial;
      if (sums && (known.private_to || !std::includes(held.partial.begin(), held.partial.end(),
                                                      spec.partial.begin(), spec.partial.end())))
        continue;
      std::vector<Move> candidate = plan_moves(shape, held, spec, device_mesh(mesh));
      if (source && received(shape, candidate, mesh) >= received(shape, moves, mesh)) continue;
      source = known;
      moves = std::move(candidate);
    }
    // Every device reads its own data.
    if (local(mesh, first).origin == LocalOrigin::kInput)
      return add_local(mesh, value, spec, LocalOrigin::kInput);
    WEFT_CHECK(source.has_value(), "'{}' cannot be brought into {}", graph_.value(value).name,
               to_string(spec, device_mesh(mesh)));
    return add_moves(mesh, *source, moves, stage, pass);
  }

  std::int64_t received(const Shape& shape, const std::vector<Move>& moves, MeshId mesh) const {
    std::int64_t elements = 0;
    for (const Move& move : moves) elements += received_elements(shape, move, device_mesh(mesh));
    return elements;
  }

  /// Adds the moves. Those up to the last sum belong to the stage and pass that compute the value,
  /// and their results are available to all. The others belong to `stage`, or are available to all
  /// if it is absent.
  LocalId add_moves(MeshId mesh, AvailableValue from, const std::vector<Move>& moves,
                    std::optional<StageId> stage, Pass pass) {
    const ValueId value = local(mesh, from.id).value;
    const auto producer = graph_.value(value).producer;
    std::size_t sums = stage ? 0 : moves.size();
    for (std::size_t i = 0; i < moves.size(); ++i)
      if (moves[i].to.partial != moves[i].from.partial) sums = std::max(sums, i + 1);
    const bool gathers_parameter = local(mesh, from.id).origin == LocalOrigin::kParameter;
    const bool once =
        gathers_parameter && request_.strategies[mesh].gather == GatherFrequency::kStep;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      const bool for_all = i < sums;
      const StageId of_stage = for_all ? stage_of(*producer) : *stage;
      const Pass in_pass = for_all ? graph_.node(*producer).pass : pass;
      AvailableValue made{
          {},
          for_all ? std::nullopt : stage,
          from.moves + 1,
          in_pass == Pass::kForward,
          std::max(order_of_move(mesh, value, of_stage, in_pass), from.order + 0.01)};
      made.id = add_local(mesh, value, moves[i].to, LocalOrigin::kComputed, made);
      part(mesh).locals[made.id].once_per_step = once;
      part(mesh).steps.push_back(
          {MoveStep{from.id, made.id, moves[i]}, of_stage, in_pass, made.order});
      from = made;
    }
    return from.id;
  }

  /// Returns the order of a move. Communication comes right after the step that it waits for, if
  /// that belongs to the same action. A value that exists before the action is fetched one product
  /// (linear, convolution) before its use, which hides the communication and keeps memory small. A
  /// received value is moved at once.
  double order_of_move(MeshId mesh, ValueId value, StageId stage, Pass pass) {
    const LocalOrigin origin = local(mesh, known_[mesh].at(value).front().id).origin;
    const auto producer = graph_.value(value).producer;
    if (origin == LocalOrigin::kReceived) return -1;
    if (origin == LocalOrigin::kComputed && stage_of(*producer) == stage &&
        (graph_.node(*producer).pass == Pass::kForward) == (pass == Pass::kForward))
      return static_cast<double>(producer->value()) + 0.5;
    const auto products = products_.find({stage, pass == Pass::kForward});
    if (products == products_.end()) return -1;
    const auto here = std::ranges::lower_bound(products->second, lowering_);
    return here == products->second.begin() ? -1
                                            : static_cast<double>(std::prev(here)->value()) - 0.5;
  }

  static bool is_product(OpKind kind) {
    return kind == OpKind::kLinear || kind == OpKind::kLinearInputGrad ||
           kind == OpKind::kLinearWeightGrad || kind == OpKind::kConvolution ||
           kind == OpKind::kConvolutionInputGrad || kind == OpKind::kConvolutionWeightGrad;
  }

  void lower(NodeId id) {
    const Node& node = graph_.node(id);
    const MeshId mesh = mesh_of(id);
    const StageId stage = stage_of(id);
    lowering_ = id;
    const ShardingStrategy& strategy = request_.strategies[mesh];
    const auto sharding = strategy.ops.find(id);
    WEFT_CHECK(sharding != strategy.ops.end(), "node {} has no sharding on mesh {}", id,
               device_mesh(mesh).name());
    const FactorSignature signature = factor_signature(graph_, node);
    const OpSpecs specs = specs_of(signature, sharding->second);
    ComputeStep step{id, {}, {}, {}, {}};
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      step.inputs.push_back(in_spec(mesh, node.inputs[i], specs.inputs[i], stage, node.pass));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      step.outputs.push_back(
          add_local(mesh, node.outputs[i], specs.outputs[i], LocalOrigin::kComputed,
                    {{}, {}, 0, node.pass == Pass::kForward, static_cast<double>(id.value())}));
    }
    if (!specs.reduced_axes.empty()) {
      step.single_device_inputs = signature.single_device_inputs;
      step.once_axes = specs.reduced_axes;
    }
    part(mesh).steps.push_back(
        {std::move(step), stage, node.pass, static_cast<double>(id.value())});
    for (const ValueId output : node.outputs) {
      const auto kept = strategy.storage_specs.find(output);
      if (kept != strategy.storage_specs.end()) move_to_home(mesh, output, kept->second);
    }
  }

  /// Moves an op's output to its home, for all users.
  void move_to_home(MeshId mesh, ValueId value, const Spec& home) {
    const AvailableValue made = known_[mesh].at(value).front();
    const Spec& spec = local(mesh, made.id).spec;
    if (spec == home) return;
    const NodeId producer = *graph_.value(value).producer;
    add_moves(mesh, made, plan_moves(graph_.value(value).type.shape, spec, home, device_mesh(mesh)),
              std::nullopt, graph_.node(producer).pass);
  }

  void finish_loss() {
    const auto producer = graph_.value(request_.loss).producer;
    WEFT_CHECK(producer.has_value());
    result_.loss_mesh = mesh_of(*producer);
    result_.loss_local = known_[result_.loss_mesh].at(request_.loss).front().id;
  }

  /// Moves the op of the loss from the forward to the action that computes the loss's gradient, if
  /// one op there reads the same values. The two become one op then (core/ops/fusion.h).
  void move_loss_to_its_gradient() {
    if (result_.spans(result_.loss_mesh)) return;
    std::vector<Step>& steps = part(result_.loss_mesh).steps;
    const auto loss = std::ranges::find_if(steps, [&](const Step& step) {
      return outputs_of(step) == std::vector{result_.loss_local};
    });
    if (loss == steps.end() || std::ranges::any_of(steps, [&](const Step& step) {
          return std::ranges::count(inputs_of(step), result_.loss_local) > 0;
        }))
      return;
    const auto gradient = std::find_if(loss + 1, steps.end(), [&](const Step& step) {
      return step.pass == Pass::kInputGrad && step.stage == loss->stage &&
             std::holds_alternative<ComputeStep>(step.what) && inputs_of(step) == inputs_of(*loss);
    });
    if (gradient == steps.end()) return;
    loss->pass = gradient->pass;
    std::rotate(loss, loss + 1, gradient);
  }

  /// Returns the copy at home if the value has one, else the op's output.
  LocalId as_kept(MeshId mesh, ValueId value) const {
    const auto& known = known_[mesh].at(value);
    const auto& homes = request_.strategies[mesh].storage_specs;
    const auto home = homes.find(value);
    if (home != homes.end()) {
      for (const AvailableValue& candidate : known)
        if (local(mesh, candidate.id).spec == home->second) return candidate.id;
    }
    return known.front().id;
  }

  void attach_gradients() {
    std::map<ValueId, int> terms;
    std::map<std::pair<MeshId, ValueId>, std::size_t> place;  // index in the mesh's parameters
    for (const MeshId mesh : result_.per_mesh.ids()) {
      const auto& parameters = part(mesh).parameters;
      for (std::size_t i = 0; i < parameters.size(); ++i)
        place[{mesh, graph_.parameters()[parameters[i].parameter].value}] = i;
    }
    for (const Gradient& gradient : request_.gradients) {
      const int index = terms[gradient.parameter]++;
      const MeshId mesh = mesh_of(*graph_.value(gradient.gradient).producer);
      const auto at = place.find({mesh, gradient.parameter});
      WEFT_CHECK(at != place.end(), "the gradient of '{}' is computed on another mesh",
                 graph_.value(gradient.parameter).name);
      part(mesh).parameters[at->second].terms.push_back({index, as_kept(mesh, gradient.gradient)});
    }
  }

  const PartitionRequest& request_;
  const Graph& graph_;
  Partition result_;
  /// Copies of each value. The first one is the original.
  IndexedVector<MeshId, std::map<ValueId, std::vector<AvailableValue>>> known_;
  /// Products (linear, convolution) by stage and direction (true: forward), ascending.
  std::map<std::pair<StageId, bool>, std::vector<NodeId>> products_;
  NodeId lowering_;
};

}  // namespace

std::vector<LocalId> inputs_of(const Step& step) {
  if (const auto* compute = std::get_if<ComputeStep>(&step.what)) return compute->inputs;
  return {std::get<MoveStep>(step.what).input};
}

std::vector<LocalId> outputs_of(const Step& step) {
  if (const auto* compute = std::get_if<ComputeStep>(&step.what)) return compute->outputs;
  return {std::get<MoveStep>(step.what).output};
}

Partition partition(const PartitionRequest& request) { return Partitioner(request).run(); }

}  // namespace weft::mesh

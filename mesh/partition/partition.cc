#include "mesh/partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/ops/op_definition.h"
#include "mesh/partition/assignment.h"

namespace weft::mesh {
namespace {

/// Builds one Partition. Used once.
class Partitioner {
 public:
  explicit Partitioner(const PartitionRequest& request) : request_(request), graph_(request.graph) {
    result_.graph = request.graph;
    result_.meshes = request.meshes;
    result_.mesh_of_stage = request.mesh_of_stage;
    result_.stage_of_block = request.stage_of_block;
    result_.per_mesh.resize(request.meshes.size());
    result_.loss = request.loss;
    labels_ = propagate_labels(graph_);
    known_.resize(request.meshes.size());
  }

  Partition run() {
    check_stages();
    place_nodes();
    place_parameters();
    for (const Pass pass : {Pass::kForward, Pass::kInputGrad, Pass::kWeightGrad}) {
      for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
        if (graph_.nodes()[i].pass == pass) lower(NodeId(i));
      }
    }
    finish_loss();
    attach_gradients();
    return std::move(result_);
  }

 private:
  StageId stage_of(NodeId node) const { return result_.stage_of_node[node]; }
  MeshId mesh_of(NodeId node) const { return request_.mesh_of_stage[stage_of(node)]; }
  const DeviceMesh& device_mesh(MeshId mesh) const { return request_.meshes[mesh]; }
  MeshPartition& part(MeshId mesh) { return result_.per_mesh[mesh]; }
  const LocalValue& local(MeshId mesh, LocalId id) const {
    return result_.per_mesh[mesh].locals[id];
  }

  void check_stages() const {
    if (std::ssize(request_.stage_of_block) != graph_.num_blocks()) {
      throw_error(ErrorCode::kInvalidConfig, "the model has {} blocks but the stages cover {}",
                  graph_.num_blocks(), request_.stage_of_block.size());
    }
    const std::set<StageId> stages(request_.stage_of_block.begin(), request_.stage_of_block.end());
    if (stages.size() != request_.mesh_of_stage.size()) {
      throw_error(ErrorCode::kInvalidConfig,
                  "there are {} stages but {} of them have a part of the model",
                  request_.mesh_of_stage.size(), stages.size());
    }
  }

  /// A value as it is on a mesh.
  struct Known {
    LocalId id;
    /// Who has made it for its own use, so that others cannot count on it; else it is there for
    /// everybody who needs the value at all.
    std::optional<StageId> for_stage;
    int moves = 0;  ///< Between this and how the value came into being.
  };

  LocalId add_local(MeshId mesh, ValueId value, Spec spec, LocalOrigin origin,
                    std::optional<StageId> for_stage = {}, int moves = 0) {
    const LocalId id = part(mesh).locals.push_back({value, std::move(spec), origin});
    known_[mesh][value].push_back({id, for_stage, moves});
    return id;
  }

  /// A node belongs to the stage of its block. But where all terms of a gradient's sum come from
  /// one other stage, they are added there, so that one tensor travels and not each term.
  void place_nodes() {
    for (const Node& node : graph_.nodes()) {
      StageId stage = request_.stage_of_block[node.block];
      if (node.op.kind == OpKind::kAdd && node.pass == Pass::kInputGrad) {
        std::set<StageId> terms;
        for (const ValueId input : node.inputs) {
          const auto producer = graph_.value(input).producer;
          terms.insert(producer ? stage_of(*producer) : stage);
        }
        if (terms.size() == 1) stage = *terms.begin();
      }
      result_.stage_of_node.push_back(stage);
    }
  }

  /// A parameter lives on the meshes whose forward nodes read it.
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
        throw_error(ErrorCode::kInvalidConfig, "parameter '{}' is used by no op", value.name);
      for (const MeshId mesh : at->second) {
        const Spec spec = spec_for(parameter.axes, request_.rules, device_mesh(mesh));
        check_divides("parameter '" + value.name + "'", value.type.shape, parameter.axes, spec,
                      device_mesh(mesh));
        const LocalId id = add_local(mesh, parameter.value, spec, LocalOrigin::kParameter);
        part(mesh).parameters.push_back({static_cast<int>(i), id, mesh == at->second.front(), {}});
      }
    }
  }

  /// The value on this mesh in the spec it first got there; received or read when it is not there
  /// yet.
  LocalId on_mesh(MeshId mesh, ValueId id, StageId stage) {
    auto& known = known_[mesh];
    if (const auto found = known.find(id); found != known.end()) return found->second.front().id;
    const Value& value = graph_.value(id);
    const Spec spec = spec_for(labels_[id.value()], request_.rules, device_mesh(mesh));
    check_divides("'" + value.name + "'", value.type.shape, labels_[id.value()], spec,
                  device_mesh(mesh));
    if (!value.producer) return add_local(mesh, id, spec, LocalOrigin::kInput);
    const Pass pass = graph_.node(*value.producer).pass;
    const MeshId from = mesh_of(*value.producer);
    WEFT_CHECK(from != mesh, "'{}' is used before it is computed", value.name);
    const LocalId source = whole(from, known_[from].at(id).front().id);
    const LocalId destination = add_local(mesh, id, spec, LocalOrigin::kReceived);
    result_.edges.push_back(
        {id, from, mesh, stage_of(*value.producer), stage, pass, source, destination});
    return destination;
  }

  /// The value without partial sums. It is summed where it is computed, for all who need it.
  LocalId whole(MeshId mesh, LocalId id) {
    const LocalValue& from = local(mesh, id);
    if (!from.spec.is_partial()) return id;
    for (const Known& known : known_[mesh][from.value]) {
      if (!local(mesh, known.id).spec.is_partial() && !known.for_stage) return known.id;
    }
    Spec spec = from.spec;
    spec.partial.clear();
    const auto producer = graph_.value(from.value).producer;
    WEFT_CHECK(producer.has_value(), "'{}' is partial but not computed",
               graph_.value(from.value).name);
    return in_spec(mesh, from.value, spec, stage_of(*producer), graph_.node(*producer).pass);
  }

  /// The value in exactly this spec: as it is there, or brought into it from where that takes the
  /// least.
  LocalId in_spec(MeshId mesh, ValueId value, const Spec& spec, StageId stage, Pass pass) {
    const LocalId first = on_mesh(mesh, value, stage);
    const Shape& shape = graph_.value(value).type.shape;
    std::optional<Known> source;
    std::vector<Move> moves;
    for (const Known& known : known_[mesh][value]) {
      if (known.for_stage && known.for_stage != stage) continue;
      const Spec& held = local(mesh, known.id).spec;
      if (held == spec) return known.id;
      // Sums are there for all, so they are made of what is.
      const bool sums = held.partial != spec.partial;
      if (sums && (known.for_stage || !std::includes(held.partial.begin(), held.partial.end(),
                                                     spec.partial.begin(), spec.partial.end())))
        continue;
      std::vector<Move> candidate = plan_moves(shape, held, spec, device_mesh(mesh));
      if (source && received(shape, candidate, mesh) >= received(shape, moves, mesh)) continue;
      source = known;
      moves = std::move(candidate);
    }
    // Every device reads the data that it needs itself.
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

  /// What sums, and what comes before that, belongs to the stage and the pass that compute the
  /// value; its result is there for all. The rest belongs to who wants it.
  LocalId add_moves(MeshId mesh, Known from, const std::vector<Move>& moves, StageId stage,
                    Pass pass) {
    const ValueId value = local(mesh, from.id).value;
    const auto producer = graph_.value(value).producer;
    std::size_t sums = 0;
    for (std::size_t i = 0; i < moves.size(); ++i)
      if (moves[i].to.partial != moves[i].from.partial) sums = i + 1;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      const bool for_all = i < sums;
      const LocalId output =
          add_local(mesh, value, moves[i].to, LocalOrigin::kComputed,
                    for_all ? std::nullopt : std::optional(stage), from.moves + 1);
      // Communication comes right after what it waits for; a value from elsewhere is there before
      // the first step of the action.
      const double made = is_computed(mesh, value) ? producer->value() + 0.5 : -1.0;
      part(mesh).steps.push_back(
          {MoveStep{from.id, output, moves[i]}, for_all ? stage_of(*producer) : stage,
           for_all ? graph_.node(*producer).pass : pass, made + 0.01 * from.moves});
      from = {output, {}, from.moves + 1};
    }
    return from.id;
  }

  /// Here, not on another mesh.
  bool is_computed(MeshId mesh, ValueId value) {
    return local(mesh, known_[mesh].at(value).front().id).origin == LocalOrigin::kComputed;
  }

  void lower(NodeId id) {
    const Node& node = graph_.node(id);
    const MeshId mesh = mesh_of(id);
    const StageId stage = stage_of(id);
    std::vector<Spec> current;
    std::vector<TensorType> types;
    for (const ValueId input : node.inputs) {
      current.push_back(local(mesh, on_mesh(mesh, input, stage)).spec);
      types.push_back(graph_.value(input).type);
    }
    const FactorSignature signature = factor_signature(graph_, node);
    const Assignment assignment = choose_assignment(signature, types, current, device_mesh(mesh),
                                                    std::string(to_string(node.op.kind)));
    ComputeStep step{id, {}, {}, {}, {}};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      step.inputs.push_back(in_spec(mesh, node.inputs[i], assignment.inputs[i], stage, node.pass));
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      step.outputs.push_back(
          add_local(mesh, node.outputs[i], assignment.outputs[i], LocalOrigin::kComputed));
    }
    if (!assignment.reduced_axes.empty()) {
      step.once_inputs = signature.once_inputs;
      step.once_axes = assignment.reduced_axes;
    }
    part(mesh).steps.push_back(
        {std::move(step), stage, node.pass, static_cast<double>(id.value())});
  }

  void finish_loss() {
    const auto producer = graph_.value(request_.loss).producer;
    WEFT_CHECK(producer.has_value());
    result_.loss_mesh = mesh_of(*producer);
    result_.loss_local = known_[result_.loss_mesh].at(request_.loss).front().id;
  }

  void attach_gradients() {
    std::map<ValueId, int> terms;
    for (const Gradient& gradient : request_.gradients) {
      const int index = terms[gradient.parameter]++;
      const MeshId mesh = mesh_of(*graph_.value(gradient.gradient).producer);
      auto& parameters = part(mesh).parameters;
      const auto at =
          std::find_if(parameters.begin(), parameters.end(), [&](const LocalParameter& parameter) {
            return graph_.parameters()[parameter.parameter].value == gradient.parameter;
          });
      WEFT_CHECK(at != parameters.end(), "the gradient of '{}' is computed on another mesh",
                 graph_.value(gradient.parameter).name);
      at->terms.push_back({index, known_[mesh].at(gradient.gradient).front().id});
    }
  }

  const PartitionRequest& request_;
  const Graph& graph_;
  Partition result_;
  std::vector<Labels> labels_;
  /// The first is how the value came into being.
  IndexedVector<MeshId, std::map<ValueId, std::vector<Known>>> known_;
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

#include "mesh/layouts/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "mesh/layouts/internal/greedy.h"
#include "mesh/layouts/labels.h"

namespace weft::mesh {
namespace {

/// Returns the spec that the rules give. Skips axes that the mesh lacks or that have size 1. Each
/// axis splits only the first dimension that names it.
Spec spec_for(const Labels& labels, const ShardingRules& rules, const DeviceMesh& mesh) {
  Spec spec = Spec::replicated(labels.size());
  std::set<int> used;
  for (std::size_t d = 0; d < labels.size(); ++d) {
    for (const auto& [label, axes] : rules.axes) {
      if (labels[d] != label) continue;
      for (const std::string& name : axes) {
        const std::optional<int> axis = mesh.axis(name);
        if (!axis || mesh.axes()[*axis].size == 1 || !used.insert(*axis).second) continue;
        spec.dims[d].push_back(*axis);
      }
    }
  }
  return spec;
}

/// Throws unless the spec divides the shape. `what`: the tensor's name for the message.
void check_divides(const std::string& what, const Shape& shape, const Labels& labels,
                   const Spec& spec, const DeviceMesh& mesh) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t ways = 1;
    for (const int axis : spec.dims[d]) ways *= mesh.axes()[axis].size;
    if (shape[d] % ways != 0) {
      throw Error(
          ErrorCode::kInvalidConfig,
          fmt::format("{} of shape {} cannot be split evenly {} ways along its axis '{}' of size "
                      "{} on mesh {}; change the model, the mesh's shape or the sharding of '{}'",
                      what, weft::to_string(shape), ways, labels[d], shape[d], to_string(mesh),
                      labels[d]))
          .at("sharding");
    }
  }
}

/// Builder of the strategy, node by node.
class ByRules {
 public:
  ByRules(const MeshGraph& part, const ShardingRules& rules)
      : part_(part), rules_(rules), labels_(propagate_labels(part.graph)) {}

  ShardingStrategy make() {
    keep_parameters();
    for (const Pass pass : {Pass::kForward, Pass::kInputGrad, Pass::kWeightGrad}) {
      for (const NodeId id : part_.nodes)
        if (part_.graph.node(id).pass == pass) add(id);
    }
    return std::move(result_);
  }

 private:
  void keep(ValueId id, const std::string& what) {
    const Labels& labels = labels_[id.value()];
    Spec spec = spec_for(labels, rules_, part_.mesh);
    check_divides(what, part_.graph.value(id).type.shape, labels, spec, part_.mesh);
    current_[id] = spec;
    result_.storage_specs[id] = std::move(spec);
  }

  /// Keeps the parameters that forward nodes read.
  void keep_parameters() {
    std::set<ValueId> read;
    for (const NodeId id : part_.nodes) {
      const Node& node = part_.graph.node(id);
      if (node.pass == Pass::kForward) read.insert(node.inputs.begin(), node.inputs.end());
    }
    for (const Parameter& parameter : part_.graph.parameters()) {
      if (read.contains(parameter.value))
        keep(parameter.value, "parameter '" + part_.graph.value(parameter.value).name + "'");
    }
  }

  void add(NodeId id) {
    const Node& node = part_.graph.node(id);
    std::vector<Spec> current;
    for (const ValueId input : node.inputs) {
      if (!current_.contains(input)) keep(input, "'" + part_.graph.value(input).name + "'");
      current.push_back(current_.at(input));
    }
    const FactorSignature signature = factor_signature(part_.graph, node);
    // None of its inputs is split like the table, so it inherits the rows of its forward op.
    const bool of_slice = node.op.kind == OpKind::kEmbeddingSliceGrad && node.forward &&
                          result_.ops.contains(*node.forward);
    OpSharding sharding = of_slice
                              ? inherited(part_.graph, node, result_.ops.at(*node.forward))
                              : choose_sharding(signature, input_types(part_.graph, node), current,
                                                part_.mesh, std::string(to_string(node.op.kind)));
    const OpSpecs specs = specs_of(signature, sharding);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      current_[node.outputs[i]] = specs.outputs[i];
    result_.ops[id] = std::move(sharding);
  }

  const MeshGraph& part_;
  const ShardingRules& rules_;
  const std::vector<Labels> labels_;
  /// Spec in which each value first exists on this mesh.
  std::map<ValueId, Spec> current_;
  ShardingStrategy result_;
};

}  // namespace

ShardingStrategy rules_strategy(const MeshGraph& part, const ShardingRules& rules) {
  return ByRules(part, rules).make();
}

}  // namespace weft::mesh

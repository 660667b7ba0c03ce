#include "mesh/partition/rules.h"

#include <fmt/format.h>

#include <set>

#include "core/base/error.h"
#include "core/ops/op_definition.h"

namespace weft::mesh {

std::vector<Labels> propagate_labels(const Graph& graph) {
  std::vector<Labels> labels(graph.values().size());
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i].resize(graph.values()[i].type.shape.size());
  for (const Input& input : graph.inputs()) labels[input.value.value()] = input.axes;
  for (const Parameter& parameter : graph.parameters())
    labels[parameter.value.value()] = parameter.axes;
  for (const Node& node : graph.nodes()) {
    const FactorSignature signature = factor_signature(graph, node);
    std::vector<std::string> factor_labels(signature.factors.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Labels& known = labels[node.inputs[i].value()];
      for (std::size_t d = 0; d < known.size(); ++d) {
        std::string& label = factor_labels[signature.inputs[i][d]];
        if (label.empty()) label = known[d];
      }
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      Labels& output = labels[node.outputs[i].value()];
      for (std::size_t d = 0; d < output.size(); ++d)
        output[d] = factor_labels[signature.outputs[i][d]];
    }
  }
  return labels;
}

std::vector<std::string> axis_names(const Graph& graph) {
  std::set<std::string> names;
  for (const Input& input : graph.inputs()) names.insert(input.axes.begin(), input.axes.end());
  for (const Parameter& parameter : graph.parameters())
    names.insert(parameter.axes.begin(), parameter.axes.end());
  names.erase("");
  return {names.begin(), names.end()};
}

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

void check_divides(const std::string& what, const Shape& shape, const Labels& labels,
                   const Spec& spec, const DeviceMesh& mesh) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t ways = 1;
    for (const int axis : spec.dims[d]) ways *= mesh.axes()[axis].size;
    if (shape[d] % ways != 0) {
      throw Error(ErrorCode::kInvalidConfig,
                  fmt::format("{} of shape {} is split {} ways along its axis '{}' of {} on mesh "
                              "{}, which does not divide; change "
                              "the model, the mesh's shape or the sharding of '{}'",
                              what, weft::to_string(shape), ways, labels[d], shape[d],
                              to_string(mesh), labels[d]))
          .at("sharding");
    }
  }
}

}  // namespace weft::mesh

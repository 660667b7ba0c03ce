#include "mesh/layouts/labels.h"

#include <set>

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

}  // namespace weft::mesh

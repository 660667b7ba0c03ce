#include "mesh/plan/internal/row_coupling.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/ops/op_definition.h"

namespace weft::mesh {
namespace {

/// Follows the dimension of rows through a graph's forward.
class RowWalk {
 public:
  explicit RowWalk(const Graph& graph) : graph_(graph) {
    std::set<ValueId> parameters;
    for (const Parameter& parameter : graph.parameters()) parameters.insert(parameter.value);
    for (std::size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id(i);
      const Value& value = graph.value(id);
      if (!value.producer && !parameters.contains(id) && !value.type.shape.empty()) rows_[id] = {0};
    }
  }

  std::optional<std::string> find() {
    for (const Node& node : graph_.nodes()) {
      if (node.pass != Pass::kForward || follow(node)) continue;
      return fmt::format("{}, which makes '{}'", to_string(node.op),
                         graph_.value(node.outputs.front()).name);
    }
    return std::nullopt;
  }

 private:
  /// Returns false if the node couples rows.
  bool follow(const Node& node) {
    const FactorSignature signature = factor_signature(graph_, node);
    std::set<int> factors;
    bool uses_sum = false;
    for (std::size_t t = 0; t < node.inputs.size(); ++t) {
      uses_sum = uses_sum || sums_.contains(node.inputs[t]);
      const auto found = rows_.find(node.inputs[t]);
      if (found == rows_.end()) continue;
      for (const int dimension : found->second) factors.insert(signature.inputs[t][dimension]);
    }
    bool sums = false;
    for (const int factor : factors) {
      if (signature.factors[factor].kind == FactorKind::kWhole) return false;
      sums = sums || signature.factors[factor].kind == FactorKind::kReduction;
    }
    // A sum over rows may only be added to other sums.
    if (uses_sum && (node.op.kind != OpKind::kAdd || !factors.empty())) return false;
    for (std::size_t t = 0; t < node.outputs.size(); ++t) {
      if (sums || uses_sum) sums_.insert(node.outputs[t]);
      const std::vector<int>& dimensions = signature.outputs[t];
      for (std::size_t d = 0; d < dimensions.size(); ++d)
        if (factors.contains(dimensions[d])) rows_[node.outputs[t]].insert(static_cast<int>(d));
    }
    return true;
  }

  const Graph& graph_;
  std::map<ValueId, std::set<int>> rows_;  ///< Dimensions of rows.
  std::set<ValueId> sums_;                 ///< Values that are sums over rows.
};

}  // namespace

std::optional<std::string> find_row_coupling(const Graph& graph) { return RowWalk(graph).find(); }

}  // namespace weft::mesh

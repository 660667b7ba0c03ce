#include "mesh/strategy/internal/strategy_lines.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/ops/op_definition.h"

namespace weft::mesh {

std::optional<StrategyLine> line_of(const LocatedText& text) {
  const LocatedText line = text.trimmed();
  if (line.text.empty() || line.text.front() == '#') return std::nullopt;
  const std::size_t blank = line.text.find_first_of(" \t");
  if (blank == std::string_view::npos) return StrategyLine{line, line.sub(line.text.size())};
  return StrategyLine{line.sub(0, blank), line.sub(blank).trimmed()};
}

void fail_at(const std::string& source, const LocatedText& at, const std::string& message) {
  throw_error(ErrorCode::kInvalidConfig, "{}:{}:{}: {}", source, at.line, at.column, message);
}

std::vector<std::string> names_of_values(const Graph& graph) {
  std::vector<std::string> names;
  std::map<std::string_view, int> uses;
  for (const Value& value : graph.values()) {
    const int use = ++uses[value.name];
    names.push_back(use == 1 ? value.name : fmt::format("{}#{}", value.name, use));
  }
  return names;
}

std::string specs_text(const FactorSignature& signature, const OpSharding& sharding,
                       const DeviceMesh& mesh) {
  std::string text;
  const auto add = [&](const std::vector<std::vector<int>>& tensors) {
    for (const std::vector<int>& factors : tensors) {
      Spec spec;
      for (const int factor : factors) spec.dims.push_back(sharding.axes[factor]);
      text += to_string(spec, mesh) + " ";
    }
  };
  add(signature.inputs);
  text += "-> ";
  add(signature.outputs);
  text.pop_back();
  if (!sharding.partial_axes.empty())
    text += " partial(" + axes_text(sharding.partial_axes, mesh) + ")";
  return text;
}

OpSharding unsplit_sharding(const FactorSignature& signature) {
  return {std::vector<std::vector<int>>(signature.factors.size()), {}};
}

OpSharding default_sharding(const Graph& graph, const Node& node, const OpSharding* forward) {
  if (node.forward && forward != nullptr) return inherited(graph, node, *forward);
  return unsplit_sharding(factor_signature(graph, node));
}

}  // namespace weft::mesh

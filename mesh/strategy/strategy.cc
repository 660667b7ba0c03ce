#include "mesh/strategy/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/error.h"

namespace weft::mesh {
namespace {

Spec spec_of(const std::vector<int>& factors, const OpSharding& sharding,
             std::vector<int> partial) {
  Spec spec = Spec::replicated(factors.size());
  for (std::size_t d = 0; d < factors.size(); ++d) spec.dims[d] = sharding.axes[factors[d]];
  spec.partial = std::move(partial);
  return spec;
}

/// Returns the forward factors of the dimensions of a backward node's tensor, or null for a tensor
/// that is unrelated to the forward node.
const std::vector<int>* factors_of(const Graph& graph, ValueId id, bool is_input,
                                   const Node& forward, const FactorSignature& signature) {
  const auto among = [&](ValueId value) -> const std::vector<int>* {
    for (std::size_t i = 0; i < forward.inputs.size(); ++i)
      if (forward.inputs[i] == value) return &signature.inputs[i];
    for (std::size_t i = 0; i < forward.outputs.size(); ++i)
      if (forward.outputs[i] == value) return &signature.outputs[i];
    return nullptr;
  };
  if (const auto* factors = among(id)) return factors;
  const Value& value = graph.value(id);
  if (value.gradient_of) {
    if (const auto* factors = among(*value.gradient_of)) return factors;
  }
  // An input of the output's shape is its gradient, even if marked as the gradient of a sum.
  if (is_input && value.type.shape == graph.value(forward.outputs[0]).type.shape)
    return &signature.outputs[0];
  return nullptr;
}

/// Returns the first tensor dimension of a factor, such as "dimension 2 of 'h0.qkv'".
std::string dimension_of(const Graph& graph, const Node& node, const FactorSignature& signature,
                         int factor) {
  const auto find = [&](const std::vector<ValueId>& tensors,
                        const std::vector<std::vector<int>>& factors) -> std::string {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (std::size_t d = 0; d < factors[t].size(); ++d) {
        if (factors[t][d] == factor)
          return fmt::format("dimension {} of '{}' {}", d, graph.value(tensors[t]).name,
                             weft::to_string(graph.value(tensors[t]).type.shape));
      }
    }
    return "";
  };
  const std::string input = find(node.inputs, signature.inputs);
  return input.empty() ? find(node.outputs, signature.outputs) : input;
}

/// Returns the next size from `units` on that divides into `split` parts. If an attention has
/// `units` elements, its heads divide the size too: 36 for 32 elements in 4 heads over 3 devices.
std::int64_t next_size(const Graph& graph, std::int64_t units, std::int64_t split) {
  std::int64_t step = split;
  for (const Node& node : graph.nodes())
    if (node.op.kind == OpKind::kAttention &&
        graph.value(node.outputs.front()).type.shape.back() == units)
      step = std::lcm(split, units / node.op.integer("head_dim"));
  return (units + step - 1) / step * step;
}

}  // namespace

std::string_view to_string(GatherFrequency gather) {
  switch (gather) {
    case GatherFrequency::kStep: return "step";
    case GatherFrequency::kMicrobatch: return "microbatch";
    case GatherFrequency::kUse: return "use";
  }
  return "?";
}

OpSpecs specs_of(const FactorSignature& signature, const OpSharding& sharding) {
  OpSpecs result;
  for (std::size_t f = 0; f < signature.factors.size(); ++f) {
    if (signature.factors[f].kind != FactorKind::kReduction) continue;
    result.reduced_axes.insert(result.reduced_axes.end(), sharding.axes[f].begin(),
                               sharding.axes[f].end());
  }
  std::ranges::sort(result.reduced_axes);
  std::vector<int> partial = sharding.partial_axes;
  partial.insert(partial.end(), result.reduced_axes.begin(), result.reduced_axes.end());
  std::ranges::sort(partial);
  for (const auto& factors : signature.inputs)
    result.inputs.push_back(spec_of(factors, sharding, sharding.partial_axes));
  for (const auto& factors : signature.outputs)
    result.outputs.push_back(spec_of(factors, sharding, partial));
  return result;
}

OpSharding inherited(const Graph& graph, const Node& backward, const OpSharding& forward) {
  const Node& origin = graph.node(*backward.forward);
  const FactorSignature known = factor_signature(graph, origin);
  const FactorSignature signature = factor_signature(graph, backward);
  OpSharding result{std::vector<std::vector<int>>(signature.factors.size()), {}};
  std::vector<bool> found(signature.factors.size(), false);
  const auto take = [&](ValueId id, bool is_input, const std::vector<int>& factors) {
    const auto* of = factors_of(graph, id, is_input, origin, known);
    if (of == nullptr) return;
    for (std::size_t d = 0; d < factors.size(); ++d) {
      if (found[factors[d]]) continue;
      found[factors[d]] = true;
      result.axes[factors[d]] = forward.axes[(*of)[d]];
    }
  };
  for (std::size_t i = 0; i < backward.inputs.size(); ++i)
    take(backward.inputs[i], true, signature.inputs[i]);
  for (std::size_t i = 0; i < backward.outputs.size(); ++i)
    take(backward.outputs[i], false, signature.outputs[i]);
  return result;
}

std::int64_t num_parts(const std::vector<int>& axes, const DeviceMesh& mesh) {
  std::int64_t ways = 1;
  for (const int axis : axes) ways *= mesh.axes()[axis].size;
  return ways;
}

void check_op_sharding(const MeshGraph& part, NodeId id, const OpSharding& sharding) {
  const Node& node = part.graph.node(id);
  const FactorSignature signature = factor_signature(part.graph, node);
  const std::string op =
      fmt::format("{} '{}'", to_string(node.op.kind), part.graph.value(node.outputs[0]).name);
  std::set<int> used(sharding.partial_axes.begin(), sharding.partial_axes.end());
  for (std::size_t f = 0; f < signature.factors.size(); ++f) {
    const Factor& factor = signature.factors[f];
    for (const int axis : sharding.axes[f]) {
      if (!used.insert(axis).second)
        throw_error(ErrorCode::kInvalidConfig,
                    "{} on mesh {}: axis '{}' is used twice; an axis splits one dimension of an op",
                    op, to_string(part.mesh), part.mesh.axes()[axis].name);
    }
    const std::int64_t split = num_parts(sharding.axes[f], part.mesh);
    if (split == 1) continue;
    const std::string dimension = dimension_of(part.graph, node, signature, f);
    const std::string axes = axes_text(sharding.axes[f], part.mesh);
    if (factor.kind == FactorKind::kWhole)
      throw_error(ErrorCode::kInvalidConfig,
                  "{} on mesh {}: {} must be whole on each device, and {} would split it", op,
                  to_string(part.mesh), dimension, axes);
    const std::int64_t units = factor.size / factor.granularity;
    if (units % split != 0)
      throw_error(
          ErrorCode::kInvalidConfig,
          "{} on mesh {}: {} has {} {}, which {} splits {} ways; the next number that divides is "
          "{}",
          op, to_string(part.mesh), dimension, units,
          factor.granularity > 1 ? fmt::format("units of {}", factor.granularity) : "elements",
          axes, split, next_size(part.graph, units, split));
  }
}

}  // namespace weft::mesh

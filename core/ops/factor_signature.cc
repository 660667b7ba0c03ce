#include "core/ops/factor_signature.h"

namespace weft {

Op op_of_slice(Op op, std::int64_t first, std::int64_t count) {
  for (auto& [name, value] : op.attributes) {
    if (name == "first") value = first;
    if (name == "count") value = count;
  }
  return op;
}

std::string to_string(const FactorSignature& signature) {
  const auto write = [&](const std::vector<std::vector<int>>& tensors) {
    std::string text;
    for (const auto& dimensions : tensors) {
      text += "(";
      for (std::size_t d = 0; d < dimensions.size(); ++d) {
        const FactorKind kind = signature.factors[dimensions[d]].kind;
        text += d == 0 ? "" : ",";
        text += static_cast<char>((kind == FactorKind::kWhole ? 'A' : 'a') + dimensions[d]);
        if (kind == FactorKind::kReduction) text += "+";
      }
      text += ")";
    }
    return text;
  };
  return write(signature.inputs) + "->" + write(signature.outputs);
}

}  // namespace weft

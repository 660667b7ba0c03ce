#include "core/ops/internal/type_check.h"

#include <numeric>
#include <optional>

namespace weft {

std::string describe_call(const Op& op, std::span<const TensorType> inputs) {
  std::string text{to_string(op.kind)};
  text += "(";
  for (std::size_t i = 0; i < inputs.size(); ++i)
    text += (i == 0 ? "" : ", ") + to_string(inputs[i]);
  return text + ")";
}

DType require_inputs(const Op& op, std::span<const TensorType> inputs,
                     std::initializer_list<Element> elements) {
  require(inputs.size() == elements.size(), op, inputs, "takes {} inputs", elements.size());
  std::optional<std::size_t> first_real;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DType dtype = inputs[i].dtype;
    switch (elements.begin()[i]) {
      case Element::kF32:
        require(dtype == DType::kF32, op, inputs, "input {} must be f32", i);
        break;
      case Element::kId:
        require(dtype == DType::kI32, op, inputs, "input {} must be i32", i);
        break;
      case Element::kReal:
        require(dtype == DType::kF32 || dtype == DType::kBF16, op, inputs,
                "input {} must be f32 or bf16", i);
        if (!first_real) first_real = i;
        require(dtype == inputs[*first_real].dtype, op, inputs,
                "inputs {} and {} must have one element type: convert one of them", *first_real, i);
        break;
    }
  }
  return first_real ? inputs[*first_real].dtype : DType::kF32;
}

std::vector<int> factor_range(std::size_t first, std::size_t count) {
  std::vector<int> factors(count);
  std::iota(factors.begin(), factors.end(), static_cast<int>(first));
  return factors;
}

}  // namespace weft

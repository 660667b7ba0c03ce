#include "core/ops/internal/type_check.h"

#include <numeric>

namespace weft {

std::string describe_call(const Op& op, std::span<const TensorType> inputs) {
  std::string text{to_string(op.kind)};
  text += "(";
  for (std::size_t i = 0; i < inputs.size(); ++i) text += (i == 0 ? "" : ", ") + to_string(inputs[i]);
  return text + ")";
}

void require_inputs(const Op& op, std::span<const TensorType> inputs, std::initializer_list<DType> dtypes) {
  require(inputs.size() == dtypes.size(), op, inputs, "takes {} inputs", dtypes.size());
  std::size_t i = 0;
  for (const DType dtype : dtypes) {
    require(inputs[i].dtype == dtype, op, inputs, "input {} must be {}", i, to_string(dtype));
    ++i;
  }
}

std::vector<int> factor_range(std::size_t first, std::size_t count) {
  std::vector<int> factors(count);
  std::iota(factors.begin(), factors.end(), static_cast<int>(first));
  return factors;
}

}  // namespace weft

#include "core/tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft {

std::int64_t num_elements(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::string to_string(const TensorType& type) { return fmt::format("{}{}", to_string(type.dtype), to_string(type.shape)); }

}  // namespace weft

#include "core/tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/units.h"

namespace weft {

std::int64_t num_elements(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product))
      throw_error(ErrorCode::kInvalidArgument,
                  "a tensor of shape [{}] has more than 2^63 - 1 elements", fmt::join(shape, ","));
  }
  return product;
}

std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

bool TensorType::is_within_limit() const {
  std::int64_t product = size_of(dtype);
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) return false;
  }
  return product <= kMaxTensorBytes;
}

std::size_t TensorType::bytes() const {
  if (!is_within_limit()) {
    throw_error(ErrorCode::kInvalidArgument,
                "tensor {} is larger than {}, the limit for one tensor", to_string(*this),
                format_bytes(kMaxTensorBytes));
  }
  return elements() * size_of(dtype);
}

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", to_string(type.dtype), to_string(type.shape));
}

}  // namespace weft

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"

namespace weft {

/// Extents of a tensor, outermost dimension first. Memory is dense and row-major: the last dimension is contiguous.
using Shape = std::vector<std::int64_t>;

/// Product of the extents; 1 for a scalar (empty shape).
std::int64_t num_elements(std::span<const std::int64_t> shape);

/// Row-major strides in elements. [2,3,4] -> [12,4,1].
std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape);

/// "[2,3,4]"; "[]" for a scalar.
std::string to_string(const Shape& shape);

/// Element type and shape: all that is known of a tensor before it exists.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  std::int64_t elements() const { return num_elements(shape); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// "f32[2,3,4]".
std::string to_string(const TensorType& type);

}  // namespace weft

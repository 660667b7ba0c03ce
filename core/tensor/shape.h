#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"

namespace weft {

/// Extents of a tensor, outermost dimension first. Memory is dense and row-major: the last
/// dimension is contiguous.
using Shape = std::vector<std::int64_t>;

/// Returns the product of the extents; 1 for a scalar (empty shape). Throws Error(kInvalidArgument)
/// on overflow.
std::int64_t num_elements(std::span<const std::int64_t> shape);

/// Returns the row-major strides in elements. [2,3,4] -> [12,4,1].
std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape);

/// Returns "[2,3,4]"; "[]" for a scalar.
std::string to_string(const Shape& shape);

/// Limit on the size of a tensor (1 PiB). Sums over thousands of tensors or devices then fit in 64
/// bits.
inline constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 50;

/// Element type and shape of a tensor.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  std::int64_t elements() const { return num_elements(shape); }
  /// Returns the size in bytes. Throws Error(kInvalidArgument) above kMaxTensorBytes.
  std::size_t bytes() const;
  /// Returns true if bytes() does not throw.
  bool is_within_limit() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Returns "f32[2,3,4]".
std::string to_string(const TensorType& type);

}  // namespace weft

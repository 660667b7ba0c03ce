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

/// Product of the extents; 1 for a scalar (empty shape). Throws Error(kInvalidArgument) if it does
/// not fit.
std::int64_t num_elements(std::span<const std::int64_t> shape);

/// Row-major strides in elements. [2,3,4] -> [12,4,1].
std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape);

/// "[2,3,4]"; "[]" for a scalar.
std::string to_string(const Shape& shape);

/// No tensor is larger (1 PiB). So bytes of some thousand tensors, or of one on some thousand
/// devices, add up within 64 bits.
inline constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 50;

/// Element type and shape: all that is known of a tensor before it exists.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  std::int64_t elements() const { return num_elements(shape); }
  /// Throws Error(kInvalidArgument) above kMaxTensorBytes.
  std::size_t bytes() const;
  /// Whether bytes() has an answer.
  bool is_possible() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// "f32[2,3,4]".
std::string to_string(const TensorType& type);

}  // namespace weft

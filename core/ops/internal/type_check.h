#pragma once

#include <fmt/format.h>

#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/graph/op.h"
#include "core/tensor/shape.h"

namespace weft {

/// "linear(f32[8,16,64], f32[32,128])": how type errors name what was asked for.
std::string describe_call(const Op& op, std::span<const TensorType> inputs);

/// Throws Error(kInvalidArgument) "<call>: <text>" unless `condition` holds.
template <typename... Args>
void require(bool condition, const Op& op, std::span<const TensorType> inputs, fmt::format_string<Args...> text, Args&&... args) {
  if (condition) return;
  throw_error(ErrorCode::kInvalidArgument, "{}: {}", describe_call(op, inputs), fmt::format(text, std::forward<Args>(args)...));
}

/// The number of inputs is right and each has its dtype; the op's rule checks shapes.
void require_inputs(const Op& op, std::span<const TensorType> inputs, std::initializer_list<DType> dtypes);

/// Factors 0, 1, ... rank-1: one per dimension.
std::vector<int> factor_range(std::size_t first, std::size_t count);

}  // namespace weft

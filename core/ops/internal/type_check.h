#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
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
void require(bool condition, const Op& op, std::span<const TensorType> inputs,
             fmt::format_string<Args...> text, Args&&... args) {
  if (condition) return;
  throw_error(ErrorCode::kInvalidArgument, "{}: {}", describe_call(op, inputs),
              fmt::format(text, std::forward<Args>(args)...));
}

/// What an input of an op holds.
enum class Element : std::uint8_t {
  /// f32 or bf16, one of them in all such inputs: activations, their gradients, working copies of
  /// parameters.
  kReal,
  kF32,  ///< f32 beside inputs of either type: targets and weights of a loss.
  kId,   ///< i32.
};

/// The number of inputs is right and each holds what it should; the op's rule checks shapes. Gives
/// the element type of the inputs that are kReal.
DType require_inputs(const Op& op, std::span<const TensorType> inputs,
                     std::initializer_list<Element> elements);

/// Factors 0, 1, ... rank-1: one per dimension.
std::vector<int> factor_range(std::size_t first, std::size_t count);

}  // namespace weft

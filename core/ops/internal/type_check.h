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

/// Returns "linear(f32[8,16,64], f32[32,128])", as type errors name the call.
std::string describe_call(const Op& op, std::span<const TensorType> inputs);

/// Throws Error(kInvalidArgument) "<call>: <text>" unless `condition` holds.
template <typename... Args>
void require(bool condition, const Op& op, std::span<const TensorType> inputs,
             fmt::format_string<Args...> text, Args&&... args) {
  if (condition) return;
  throw_error(ErrorCode::kInvalidArgument, "{}: {}", describe_call(op, inputs),
              fmt::format(text, std::forward<Args>(args)...));
}

/// Content of an op's input.
enum class Element : std::uint8_t {
  /// f32 or bf16, the same in all kReal inputs: activations, their gradients, working copies of
  /// parameters.
  kReal,
  kF32,  ///< f32, regardless of the other inputs: targets and weights of a loss.
  kId,   ///< i32.
};

/// Checks the number and element types of the inputs; the op's rule checks shapes. Returns the
/// element type of the kReal inputs. Throws Error(kInvalidArgument).
DType require_inputs(const Op& op, std::span<const TensorType> inputs,
                     std::initializer_list<Element> elements);

/// Returns the factors first, first + 1, ..., first + count - 1, one per dimension.
std::vector<int> factor_range(std::size_t first, std::size_t count);

}  // namespace weft

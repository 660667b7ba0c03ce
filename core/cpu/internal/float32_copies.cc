#include "core/cpu/internal/float32_copies.h"

#include <algorithm>

#include "core/tensor/bfloat16.h"

namespace weft {
namespace {

/// Returns the elements of a tensor, rounded up so that the next copy starts at a multiple of 64
/// bytes.
std::size_t padded_elements(const TensorType& type) {
  return (static_cast<std::size_t>(type.elements()) + 15) / 16 * 16;
}

}  // namespace

bool any_bf16(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs) {
  const auto is_bf16 = [](const auto& tensor) { return tensor.type.dtype == DType::kBF16; };
  return std::ranges::any_of(inputs, is_bf16) || std::ranges::any_of(outputs, is_bf16);
}

Float32Copies::Float32Copies(std::span<const ConstTensorRef> inputs,
                             std::span<const TensorRef> outputs, Workspace& workspace)
    : given_outputs_(outputs),
      inputs_(inputs.begin(), inputs.end()),
      outputs_(outputs.begin(), outputs.end()) {
  std::size_t floats = 0;
  for (const ConstTensorRef& input : inputs)
    floats += input.type.dtype == DType::kBF16 ? padded_elements(input.type) : 0;
  for (const TensorRef& output : outputs)
    floats += output.type.dtype == DType::kBF16 ? padded_elements(output.type) : 0;
  float* at = workspace.floats(floats);
  const auto replace = [&](auto& tensor) {
    const std::span<float> copy(at, static_cast<std::size_t>(tensor.type.elements()));
    at += padded_elements(tensor.type);
    tensor = {{DType::kF32, tensor.type.shape}, std::as_writable_bytes(copy).data()};
    return copy;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type.dtype == DType::kBF16)
      convert(inputs[i].as<BFloat16>(), replace(inputs_[i]));
  }
  for (TensorRef& output : outputs_) {
    if (output.type.dtype == DType::kBF16) replace(output);
  }
}

void Float32Copies::round_outputs() const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (given_outputs_[i].type.dtype == DType::kBF16)
      convert(outputs_[i].as<float>(), given_outputs_[i].as<BFloat16>());
  }
}

}  // namespace weft

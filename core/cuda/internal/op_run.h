#pragma once

#include <array>
#include <span>

#include "core/cuda/internal/backend.h"
#include "core/device/tensor_ref.h"
#include "core/graph/op.h"

namespace weft::cuda {

/// One execution of an op, checked.
struct OpRun {
  const Op& op;
  std::span<const ConstTensorRef> inputs;
  std::span<const TensorRef> outputs;
  std::array<bool, 3> accumulate{};

  const Shape& shape(std::size_t input) const { return inputs[input].type.shape; }
  std::int64_t size(std::size_t input) const { return inputs[input].type.elements(); }
  /// All dimensions but the last together.
  std::int64_t rows(std::size_t input) const { return size(input) / shape(input).back(); }
  std::int64_t columns(std::size_t input) const { return shape(input).back(); }
  DType type(std::size_t input) const { return inputs[input].type.dtype; }
  const void* in(std::size_t i) const { return inputs[i].data; }
  const std::int32_t* ids(std::size_t i) const {
    return reinterpret_cast<const std::int32_t*>(inputs[i].data);
  }
  const float* floats(std::size_t i) const {
    return reinterpret_cast<const float*>(inputs[i].data);
  }
  void* out(std::size_t i = 0) const { return outputs[i].data; }
  float* out_floats(std::size_t i = 0) const { return reinterpret_cast<float*>(outputs[i].data); }
  /// Written with the wrong number by a kernel that finds one; see Fault.
  std::uint64_t fault_word() const { return (static_cast<std::uint64_t>(op.kind) + 1) << 32; }
};

/// `elements` further on; null stays null.
inline const void* advance(const void* at, std::int64_t elements, DType type) {
  return at == nullptr
             ? nullptr
             : static_cast<const char*>(at) + elements * static_cast<std::int64_t>(size_of(type));
}
inline void* advance(void* at, std::int64_t elements, DType type) {
  return const_cast<void*>(advance(static_cast<const void*>(at), elements, type));
}

/// Queues an op. As Stream::run: checks types, computes, adds to outputs that accumulate.
void run_op(Backend& backend, const Op& op, std::span<const ConstTensorRef> inputs,
            std::span<const TensorRef> outputs, std::span<const OutputMode> modes);

// By family of ops.
void run_linear(Backend& backend, const OpRun& run);
void run_linear_input_grad(Backend& backend, const OpRun& run);
void run_linear_weight_grad(Backend& backend, const OpRun& run);
void run_linear_gelu(Backend& backend, const OpRun& run);
void run_linear_add(Backend& backend, const OpRun& run);
void run_linear_input_grad_gelu(Backend& backend, const OpRun& run);
void run_linear_weight_grad_sum(Backend& backend, const OpRun& run);
void run_convolution(Backend& backend, const OpRun& run, ConvolutionPass pass);
void run_attention(Backend& backend, const OpRun& run);
void run_attention_grad(Backend& backend, const OpRun& run);
void run_cross_attention(Backend& backend, const OpRun& run);
void run_cross_attention_grad(Backend& backend, const OpRun& run);

/// Throws Error(kInvalidArgument) if a kernel found a number outside its table or row; then the
/// fault is forgotten.
void check_fault(Fault& fault);

}  // namespace weft::cuda

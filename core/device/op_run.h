#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device/tensor_ref.h"
#include "core/graph/op.h"

namespace weft {

/// Execution of one op, as passed to its kernel on every device: validated, with device addresses.
struct OpRun {
  const Op& op;
  std::span<const ConstTensorRef> inputs;
  std::span<const TensorRef> outputs;
  /// True for outputs that are added to instead of overwritten. Only set for kernels with
  /// `accumulates`.
  std::array<bool, 3> accumulate{};

  const Shape& shape(std::size_t input) const { return inputs[input].type.shape; }
  DType type(std::size_t input) const { return inputs[input].type.dtype; }
  std::int64_t size(std::size_t input) const { return inputs[input].type.elements(); }
  std::int64_t columns(std::size_t input) const { return shape(input).back(); }
  /// Returns the number of contiguous elements per index of `dim`.
  std::int64_t stride(std::size_t input, std::int64_t dim) const {
    std::int64_t elements = 1;
    for (std::size_t d = dim + 1; d < shape(input).size(); ++d) elements *= shape(input)[d];
    return elements;
  }
  /// Returns the product of all dimensions except the last.
  std::int64_t rows(std::size_t input) const { return size(input) / columns(input); }

  const void* in(std::size_t i) const { return inputs[i].data; }
  const float* floats(std::size_t i) const { return static_cast<const float*>(in(i)); }
  const std::int32_t* ids(std::size_t i) const { return static_cast<const std::int32_t*>(in(i)); }
  void* out(std::size_t i = 0) const { return outputs[i].data; }
  float* out_floats(std::size_t i = 0) const { return static_cast<float*>(out(i)); }
};

/// Kernel of an op on one kind of device; one for each row of the list of ops. `Context` holds the
/// device's state for kernels.
template <typename Context>
struct OpKernel {
  void (*run)(Context& context, const OpRun& run);
  /// True if the kernel can add to its outputs; for other kernels run_kernel() adds.
  bool accumulates = false;
};

/// Throws Error(kFailedPrecondition) for an op that only emulated devices can run.
[[noreturn]] void throw_emulated_only(const Op& op);
template <typename Context>
void emulated_only(Context&, const OpRun& run) {
  throw_emulated_only(run.op);
}

/// Throws Error(kInvalidArgument) unless the op accepts the inputs and produces the outputs.
void check_types(const Op& op, std::span<const TensorType> inputs,
                 std::span<const TensorRef> outputs);

/// Validates the arguments of Stream::run. Throws as documented there: types must fit the op,
/// `modes` must be empty or have one entry per output, and only f32 outputs accumulate.
OpRun checked_run(const Op& op, std::span<const ConstTensorRef> inputs,
                  std::span<const TensorRef> outputs, std::span<const OutputMode> modes);

/// Runs the kernel. Outputs to accumulate into, if the kernel cannot, are computed in temporary
/// memory and then added.
///   allocate(bytes)  returns temporary memory for this call, aligned to at least 64 bytes
///   add(from, to)    computes to += from for two f32 tensors
template <typename Context, typename Allocate, typename Add>
void run_kernel(const OpKernel<Context>& kernel, Context& context, const OpRun& run,
                const Allocate& allocate, const Add& add) {
  if (kernel.accumulates || run.accumulate == std::array<bool, 3>{}) {
    kernel.run(context, run);
    return;
  }
  const auto padded_bytes = [&](std::size_t i) {
    return (run.outputs[i].type.bytes() + 255) / 256 * 256;
  };
  std::vector<TensorRef> outputs(run.outputs.begin(), run.outputs.end());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) bytes += run.accumulate[i] ? padded_bytes(i) : 0;
  std::byte* beside = allocate(bytes);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!run.accumulate[i]) continue;
    outputs[i].data = beside;
    beside += padded_bytes(i);
  }
  kernel.run(context, {run.op, run.inputs, outputs});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (run.accumulate[i]) add(outputs[i], run.outputs[i]);
  }
}

}  // namespace weft

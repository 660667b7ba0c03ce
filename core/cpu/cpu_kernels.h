#pragma once

#include <memory>
#include <span>

#include "core/cpu/instruction_set.h"
#include "core/device/optimizer.h"
#include "core/device/tensor_ref.h"
#include "core/graph/op.h"

namespace weft {

/// Computes every op on host memory, in the calling thread (and `threads` threads inside matrix
/// products). bf16 tensors are converted to f32 and results rounded: slow, and what other devices'
/// bf16 kernels are compared with.
///
/// Holds compiled matrix products and working memory, so a second run of an op of the same sizes
/// allocates nothing. Results depend on inputs, instruction set and number of threads alone. One
/// thread at a time; owned by a stream.
class CpuKernels final {
 public:
  /// Throws Error(kInvalidArgument) if this CPU lacks the instruction set, or `threads` is below 1.
  explicit CpuKernels(InstructionSet instruction_set, int threads = 1);
  ~CpuKernels();

  /// See Stream::run.
  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode> modes);
  void add(std::span<const float> from, std::span<float> to);
  void adamw(const AdamW& step, const OptimizedParameter& parameter);
  double sum_of_squares(std::span<const float> values);

  struct Context;

 private:
  std::unique_ptr<Context> context_;
};

}  // namespace weft

#pragma once

#include <memory>
#include <span>

#include "core/cpu/instruction_set.h"
#include "core/device/optimizer.h"
#include "core/device/tensor_ref.h"
#include "core/graph/op.h"

namespace weft {

/// Executes ops on host memory, in the calling thread (matrix products use `threads` threads).
/// Converts bf16 tensors to f32 and rounds the results: slow, but the reference for bf16 kernels of
/// other devices.
///
/// Caches compiled matrix products and working memory, so repeating an op of the same size
/// allocates nothing. Results depend only on inputs, instruction set and number of threads. Owned
/// by a stream. Not thread-safe.
class CpuKernels final {
 public:
  /// Throws Error(kInvalidArgument) if this CPU lacks the instruction set, or `threads` is below 1.
  explicit CpuKernels(InstructionSet instruction_set, int threads = 1);
  ~CpuKernels();

  /// Runs an op like Stream::run.
  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode> modes);
  void add(std::span<const float> from, std::span<float> to);
  void adamw(const AdamW& step, const AdamWParameter& parameter);
  double sum_of_squares(std::span<const float> values);

  struct Context;

 private:
  std::unique_ptr<Context> context_;
};

}  // namespace weft

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/device/optimizer.h"
#include "core/device/tensor_ref.h"
#include "core/graph/op.h"

struct CUstream_st;

namespace weft {

/// A cudaStream_t, without CUDA's headers.
using CudaStreamHandle = CUstream_st*;

struct CudaKernelsOptions {
  bool tf32 = false;  ///< Products of f32 tensors may round their factors to TF32.
  /// Equal inputs give equal results, bit for bit. Without it cuDNN may add up gradients of
  /// attention in any order: faster, and no work space for scores.
  bool deterministic = true;
  /// Is told what cuDNN and cuBLASLt refuse, with the reasons, in the call that finds out: Weft's
  /// own kernels do it, or it is done in two parts. Tells some more than once.
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

/// Every op on the memory of one GPU, with the libraries' handles, plans and work space that they
/// need. Calls queue work on the stream and return; nothing here waits for the GPU.
///
/// Work space is used by queued work: one object serves one stream. Made, used and destroyed while
/// its GPU is the calling thread's current device; one thread at a time. Destroyed when the stream
/// has no more work.
class CudaKernels final {
 public:
  explicit CudaKernels(const CudaKernelsOptions& options);
  ~CudaKernels();
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  /// As Stream::run.
  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode> modes, CudaStreamHandle stream);
  void add(std::span<const float> from, std::span<float> to, CudaStreamHandle stream);
  void adamw(const AdamW& step, std::span<const OptimizedParameter> parameters,
             CudaStreamHandle stream);
  /// results[i] = sum of the squares of tensors[i], in double, in a fixed order. `results` is
  /// memory that the GPU can write: its own, or pinned host memory.
  void sums_of_squares(std::span<const std::span<const float>> tensors, std::span<double> results,
                       CudaStreamHandle stream);

  /// Throws Error(kInvalidArgument) if work that is done found its data wrong, as an id outside its
  /// table. Call it when the stream was synchronised.
  void check_faults();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

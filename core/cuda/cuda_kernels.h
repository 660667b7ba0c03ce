#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/device/optimizer.h"
#include "core/device/tensor_ref.h"
#include "core/graph/op.h"

struct CUstream_st;

namespace weft {

/// cudaStream_t, declared without CUDA's headers.
using CudaStreamHandle = CUstream_st*;

struct CudaKernelsOptions {
  bool tf32 = false;  ///< Allows products of f32 tensors to round their factors to TF32.
  /// Makes equal inputs give bitwise equal results. If false, cuDNN may sum gradients of attention
  /// in any order, which is faster and needs no work space for scores.
  bool deterministic = true;
  /// Uses cuBLASLt and cuDNN. If false, Weft's own kernels run all ops: slow, for comparisons.
  bool vendor_libraries = true;
  /// Times the algorithms of cuBLASLt once per matrix product, and uses the fastest.
  bool measure_products = false;
  /// File that keeps the choices. Without one, `deterministic` products are not measured.
  std::filesystem::path product_choices = {};
  /// Called with the reason when cuDNN or cuBLASLt rejects an op. Weft's own kernels or two
  /// separate ops are then used. May be called several times for the same reason.
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

/// Executes ops on the memory of one GPU. Holds the libraries' handles, plans and work space. Calls
/// queue work on the stream and return without waiting for the GPU.
///
/// Queued work uses the work space, so one object serves one stream. Create, use and destroy it
/// while its GPU is the calling thread's current device. Destroy it after the stream's work is
/// done. Not thread-safe.
class CudaKernels final {
 public:
  explicit CudaKernels(const CudaKernelsOptions& options);
  ~CudaKernels();
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  /// Queues an op like Stream::run.
  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode> modes, CudaStreamHandle stream);
  void add(std::span<const float> from, std::span<float> to, CudaStreamHandle stream);
  void adamw(const AdamW& step, std::span<const AdamWParameter> parameters,
             CudaStreamHandle stream);
  /// Sets results[i] to the sum of the squares of tensors[i], in double, in a fixed order.
  /// `results` must be writable by the GPU: its own memory or pinned host memory.
  void sums_of_squares(std::span<const std::span<const float>> tensors, std::span<double> results,
                       CudaStreamHandle stream);

  /// Throws Error(kInvalidArgument) if completed work found invalid data, such as an id outside its
  /// table. Call after synchronizing the stream.
  void check_faults();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

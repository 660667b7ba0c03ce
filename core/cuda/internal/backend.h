#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cuda/internal/launches.h"

namespace weft::cuda {

enum class ConvolutionPass : std::uint8_t { kForward, kInputGrad, kWeightGrad };

/// Product of a convolution (one of three). x and dx have the shape window.x, y and dy [batch,
/// out_height, out_width, out_channels], w and dw [kernel_height, kernel_width, channels,
/// out_channels]. All are of type `type`, except dw, which is f32.
struct Convolution {
  ConvolutionPass pass = ConvolutionPass::kForward;
  DType type = DType::kF32;
  ConvolutionShape window;
  std::int64_t out_channels = 0;
  const void *x = nullptr, *w = nullptr, *bias = nullptr, *dy = nullptr;
  void* result = nullptr;  ///< Output: y, dx or dw.
  bool accumulate = false;
};

/// Services of the GPU and the vendor's libraries for one op at a time. CudaKernels implements them
/// on the GPU; the contract suite has an implementation on the CPU. All work is queued on the
/// stream.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual StreamHandle stream() const = 0;
  /// Returns scratch memory for this op, aligned to 256 bytes.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual FaultWord* fault() const = 0;
  /// Returns the bytes of dynamic shared memory that a block may have.
  virtual std::size_t shared_memory() const = 0;
  virtual void fill_zero(void* memory, std::size_t bytes) = 0;

  virtual void multiply(const MatrixProduct& product) = 0;
  /// Queues a fused product. Returns false and queues nothing if the library does not support it or
  /// two parts are faster; the caller then queues a TwoPartProduct.
  virtual bool multiply_fused(const MatrixProduct& product) = 0;
  /// Queue a convolution or attention. Return false and queue nothing if the library does not
  /// support it; the caller then uses Weft's own kernels.
  virtual bool convolve(const Convolution& convolution) = 0;
  virtual bool attend(DType type, const Attention& shape, const void* q, const void* k,
                      const void* v, void* y, float* statistics) = 0;
  virtual bool attend_grad(DType type, const Attention& shape,
                           const AttentionGradTensors& tensors) = 0;

  template <typename T>
  T* allocate_of(std::int64_t count) {
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
};

}  // namespace weft::cuda

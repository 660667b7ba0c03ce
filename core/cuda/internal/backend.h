#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cuda/internal/launches.h"

namespace weft::cuda {

enum class ConvolutionPass : std::uint8_t { kForward, kInputGrad, kWeightGrad };

/// One of the three products of a convolution. x and dx are window.x, y and dy [batch, out_height,
/// out_width, out_channels], w [kernel_height, kernel_width, channels, out_channels] in `type`, dw
/// alike in f32.
struct Convolution {
  ConvolutionPass pass = ConvolutionPass::kForward;
  DType type = DType::kF32;
  Window window;
  std::int64_t out_channels = 0;
  const void *x = nullptr, *w = nullptr, *bias = nullptr, *dy = nullptr;
  void* result = nullptr;  ///< y, dx or dw.
  bool accumulate = false;
};

/// What the ops need of the GPU and of the vendor's libraries, for one op at a time: CudaKernels
/// has the real one; the contract suite has one that runs on the CPU. Everything is queued on the
/// stream.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual StreamHandle stream() const = 0;
  /// Work space, aligned to 256 bytes, for this op alone.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual Fault* fault() const = 0;
  /// The most shared memory that a block may ask for.
  virtual std::size_t shared_memory() const = 0;
  virtual void fill_zero(void* memory, std::size_t bytes) = 0;

  virtual void multiply(const MatrixProduct& product) = 0;
  /// A product with what belongs to fused ones. These compute nothing and return false where the
  /// library cannot: then Weft's own kernels do it.
  virtual bool multiply_fused(const MatrixProduct& product) = 0;
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

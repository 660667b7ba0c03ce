#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/cuda/internal/backend.h"

namespace weft::cuda {

/// Fused attention and convolutions in bf16 by cuDNN. Uses the headers of cudnn-frontend if found
/// at configure time (cudnn_graphs.cc); otherwise rejects all calls (cudnn_graphs_absent.cc).
/// Builds a graph once per shape. Only this class calls cuDNN. Calls return false and queue nothing
/// if cuDNN does not support them. Not thread-safe.
class CudnnGraphs final {
 public:
  /// `deterministic` makes results reproducible; without it gradients of attention are faster and
  /// need less work space. `note` is called with each graph that cuDNN rejects, and the reason.
  CudnnGraphs(bool deterministic, const std::function<void(const std::string&)>& note);
  ~CudnnGraphs();

  bool attend(Backend& backend, DType type, const Attention& shape, const void* q, const void* k,
              const void* v, void* y, float* statistics);
  bool attend_grad(Backend& backend, DType type, const Attention& shape,
                   const AttentionGradTensors& tensors);
  bool convolve(Backend& backend, const Convolution& convolution);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cuda

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/cuda/internal/backend.h"

namespace weft::cuda {

/// Fused attention and convolutions of bf16 by cuDNN, through the headers of cudnn-frontend where
/// they were found at configure (cudnn_graphs.cc; else cudnn_graphs_absent.cc, which refuses
/// everything). A graph is built once per shape. The only place that calls cuDNN. Each call returns
/// false, with nothing queued, where cuDNN cannot. One thread at a time.
class CudnnGraphs final {
 public:
  /// Results are the same in every run if `deterministic`; else gradients of attention are faster
  /// and need less work space. `note` is told which graphs cuDNN refuses, and why.
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

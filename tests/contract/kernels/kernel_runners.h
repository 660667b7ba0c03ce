#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/optimizer.h"
#include "core/device/tensor_ref.h"
#include "core/graph/op.h"
#include "tests/contract/kernels/host_grid.h"
#include "tests/contract/kernels/shared_runners.h"

namespace weft::test {

/// Runner of ops on host memory. Each call copies arguments to the device and results back.
class KernelRunner {
 public:
  virtual ~KernelRunner() = default;
  virtual void run(const Op& op, std::span<const ConstTensorRef> inputs,
                   std::span<const TensorRef> outputs, std::span<const OutputMode> modes) = 0;
  virtual void add(std::span<const float> from, std::span<float> to) = 0;
  virtual void adamw(const AdamW& step, std::span<const AdamWParameter> parameters) = 0;
  virtual void sums_of_squares(std::span<const std::span<const float>> tensors,
                               std::span<double> results) = 0;
  /// Adds two numbers. Throws if the device does not work.
  void probe() {
    const float from = 1;
    float to = 1;
    add({&from, 1}, {&to, 1});
  }
};

using KindOfRunner = KindOf<KernelRunner>;

/// Returns all kinds of runners: every device; Weft's own CUDA kernels on the CPU ("cuda_on_host");
/// and CudaKernels with a cuBLASLt double for the CPU ("cublaslt_on_host").
std::vector<KindOfRunner> kernel_runners();

/// Returns runner "cuda_on_host". `order` is that of the threads of a block.
std::unique_ptr<KernelRunner> cuda_on_host(HostOrder order);

/// Returns runner "cublaslt_on_host", from cublaslt_on_host.cc. Without cuBLASLt's headers, the
/// build uses cublaslt_on_host_absent.cc.
std::unique_ptr<KernelRunner> cublaslt_on_host();

}  // namespace weft::test

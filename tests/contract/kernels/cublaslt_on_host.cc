#include "core/cuda/cuda_kernels.h"
#include "tests/contract/kernels/kernel_runners.h"

namespace weft::test {
namespace {

/// Real CudaKernels on doubles of the CUDA runtime and cuBLASLt. Weft's own kernels run in
/// host_grid.
class CublasLtRunner final : public KernelRunner {
 public:
  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode> modes) override {
    host_order = HostOrder::kForward;
    kernels_.run(op, inputs, outputs, modes, nullptr);
    kernels_.check_faults();
  }
  void add(std::span<const float> from, std::span<float> to) override {
    kernels_.add(from, to, nullptr);
  }
  void adamw(const AdamW& step, std::span<const AdamWParameter> parameters) override {
    kernels_.adamw(step, parameters, nullptr);
  }
  void sums_of_squares(std::span<const std::span<const float>> tensors,
                       std::span<double> results) override {
    kernels_.sums_of_squares(tensors, results, nullptr);
  }

 private:
  CudaKernels kernels_{CudaKernelsOptions{}};
};

}  // namespace

std::unique_ptr<KernelRunner> cublaslt_on_host() { return std::make_unique<CublasLtRunner>(); }

}  // namespace weft::test

#include "core/kernels_cuda/cuda_kernels.h"

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/kernels_cuda/internal/launch.h"

namespace weft {

class CudaKernels::Impl {
 public:
  explicit Impl(const CudaKernelsOptions& options) : options_(options) {}
  const CudaKernelsOptions& options() const { return options_; }

 private:
  CudaKernelsOptions options_;
};

CudaKernels::CudaKernels(const CudaKernelsOptions& options) : impl_(std::make_unique<Impl>(options)) {}
CudaKernels::~CudaKernels() = default;

void CudaKernels::run(const Op& op, std::span<const ConstTensorRef>, std::span<const TensorRef>, std::span<const OutputMode>,
                      CudaStreamHandle) {
  throw_error(ErrorCode::kInvalidArgument, "there is no CUDA kernel of {}", to_string(op));
}
void CudaKernels::add(std::span<const float> from, std::span<float> to, CudaStreamHandle stream) {
  WEFT_CHECK(from.size() == to.size(), "{} and {} elements", from.size(), to.size());
  launch_add(from, to, stream);
}
void CudaKernels::adamw(const AdamW&, std::span<const OptimizedParameter>, CudaStreamHandle) {
  throw_error(ErrorCode::kInvalidArgument, "there is no CUDA kernel of AdamW");
}
void CudaKernels::sums_of_squares(std::span<const std::span<const float>>, std::span<double>, CudaStreamHandle) {
  throw_error(ErrorCode::kInvalidArgument, "there is no CUDA kernel of sums of squares");
}
void CudaKernels::check_faults() {}

}  // namespace weft

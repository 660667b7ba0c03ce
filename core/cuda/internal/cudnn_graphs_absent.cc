// Built if the headers of cudnn-frontend were not found: Weft's own kernels run all ops.
#include "core/cuda/internal/cudnn_graphs.h"

namespace weft::cuda {

class CudnnGraphs::Impl {};

CudnnGraphs::CudnnGraphs(bool, const std::function<void(const std::string&)>& note) {
  note(
      "cuDNN is not used, because Weft was built without the headers of cudnn-frontend (pip "
      "install "
      "nvidia-cudnn-frontend, then configure again)");
}
CudnnGraphs::~CudnnGraphs() = default;
bool CudnnGraphs::attend(Backend&, DType, const Attention&, const void*, const void*, const void*,
                         void*, float*) {
  return false;
}
bool CudnnGraphs::attend_grad(Backend&, DType, const Attention&, const AttentionGradTensors&) {
  return false;
}
bool CudnnGraphs::convolve(Backend&, const Convolution&) { return false; }

}  // namespace weft::cuda

// Fake of libweft_cuda.so for a machine with two GPUs, both unusable.
#include "core/base/error.h"
#include "core/cuda_support/cuda_plugin.h"

extern "C" int fake_nccl_version();

namespace weft {
namespace {

class Plugin final : public CudaPlugin {
 public:
  CudaSupport support() const override {
    CudaSupport support;
    support.gpus = {"fake 0", "fake 1"};
    support.runtime = std::to_string(fake_nccl_version());
    return support;
  }
  std::unique_ptr<Device> make_device(const CudaDeviceOptions& options) const override {
    throw Error(ErrorCode::kResourceExhausted, fmt::format("GPU {} is taken", options.gpu))
        .at("a plugin");
  }
};

}  // namespace
}  // namespace weft

extern "C" weft::CudaPlugin* weft_cuda_plugin(std::uint64_t stamp) {
  return stamp == weft::CudaPlugin::stamp() ? new weft::Plugin : nullptr;
}

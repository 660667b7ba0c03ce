// Double of libweft_cuda.so: a machine with one GPU, which is a DetachedDevice. Programs find the
// double if WEFT_PLUGINS names its folder, and then run as on a machine with a GPU.
// $GPU_DOUBLE_BYTES limits the memory that each process can allocate on the GPU.
#include <cstdlib>
#include <string>

#include "core/cuda_support/cuda_plugin.h"
#include "tests/support/detached_device.h"

namespace weft::test {
namespace {

class Plugin final : public CudaPlugin {
 public:
  CudaSupport support() const override {
    CudaSupport support;
    support.gpus = {"double of a GPU"};
    support.driver = support.runtime = "13.0";
    return support;
  }
  std::unique_ptr<Device> make_device(const CudaDeviceOptions&) const override {
    DetachedOptions options{.shuffle_seed = 1};
    if (const char* const bytes = std::getenv("GPU_DOUBLE_BYTES"); bytes != nullptr)
      options.memory_bytes = std::stoull(bytes);
    return std::make_unique<DetachedDevice>(options);
  }
};

}  // namespace
}  // namespace weft::test

extern "C" weft::CudaPlugin* weft_cuda_plugin(std::uint64_t stamp) {
  return stamp == weft::CudaPlugin::stamp() ? new weft::test::Plugin : nullptr;
}

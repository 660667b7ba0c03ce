// Implementation of the CUDA plugin: detects GPUs and creates devices.
#include "core/cuda_support/cuda_plugin.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/cuda/cuda_device.h"
#include "core/cuda_support/file_of_function.h"

namespace weft {
namespace {

int runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version;
}

/// Formats a CUDA version: 13000 becomes "13.0".
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Formats a version of cuBLASLt or cuDNN: 91900 becomes "9.19.0".
std::string library_version(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::vector<LoadedLibrary> loaded_libraries() {
  return {
      {"CUDA runtime", version_text(runtime_version()), file_of_function(&cudaRuntimeGetVersion)},
      {"cuBLASLt", library_version(cublasLtGetVersion()), file_of_function(&cublasLtGetVersion)},
      {"cuDNN", library_version(cudnnGetVersion()), file_of_function(&cudnnGetVersion)}};
}

class Plugin final : public CudaPlugin {
 public:
  CudaSupport support() const override {
    CudaSupport support;
    int driver = 0;
    cudaDriverGetVersion(&driver);  // sets 0 if there is no driver
    support.runtime = version_text(runtime_version());
    support.libraries = loaded_libraries();
    if (driver != 0) support.driver = version_text(driver);
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (driver == 0) {
      support.unavailable_reason = "no driver: libcuda.so.1 was not found; install NVIDIA's driver";
    } else if (status == cudaErrorInsufficientDriver) {
      support.unavailable_reason = fmt::format(
          "the driver is too old: it supports CUDA {}, the libraries need CUDA {}; update the "
          "driver",
          support.driver, support.runtime);
    } else if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
      support.unavailable_reason =
          "the driver finds no GPU (GPUs not listed in CUDA_VISIBLE_DEVICES are hidden)";
    } else if (status != cudaSuccess) {
      support.unavailable_reason =
          fmt::format("the driver failed to start: {} ({})", cudaGetErrorString(status),
                      cudaGetErrorName(status));
    }
    for (int gpu = 0; gpu < count && support.unavailable_reason.empty(); ++gpu) {
      cudaDeviceProp properties;
      if (const cudaError_t error = cudaGetDeviceProperties(&properties, gpu);
          error != cudaSuccess) {
        support.unavailable_reason =
            fmt::format("GPU {} cannot be queried: {}", gpu, cudaGetErrorString(error));
        break;
      }
      support.gpus.push_back(fmt::format("{}, sm_{}{}, {}", properties.name, properties.major,
                                         properties.minor,
                                         format_bytes(properties.totalGlobalMem)));
    }
    return support;
  }

  std::unique_ptr<Device> make_device(const CudaDeviceOptions& options) const override {
    return std::make_unique<CudaDevice>(options);
  }
};

}  // namespace
}  // namespace weft

extern "C" weft::CudaPlugin* weft_cuda_plugin(std::uint64_t stamp) {
  return stamp == weft::CudaPlugin::stamp() ? new weft::Plugin : nullptr;
}

#include "apps/train/driver_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "core/cuda_support/cuda_support.h"

namespace weft::apps {

std::vector<DriverDevice> driver_devices(const DeviceConfig& config) {
  std::vector<DriverDevice> devices;
  if (config.kind != DeviceKind::kCpu) {
    const PluginSearch search = plugin_search(plugin_places());
    const std::size_t found = cuda_support(search).gpus.size();
    const std::size_t listed =
        config.kind == DeviceKind::kCuda ? std::max<std::size_t>(found, 1) : found;
    for (std::size_t gpu = 0; gpu < listed; ++gpu) {
      CudaDeviceOptions options;
      options.gpu = gpu;
      options.deterministic = config.deterministic;
      devices.push_back(
          {fmt::format("GPU {}", gpu), [=] { return make_cuda_device(options, search); }});
    }
  }
  devices.push_back({"the CPU", [threads = config.threads] {
                       return std::make_unique<CpuDevice>(
                           CpuDeviceOptions{.threads = threads, .instruction_set = {}});
                     }});
  return devices;
}

FinalReport report_on_first_device(const std::vector<DriverDevice>& devices,
                                   const std::function<FinalReport(Device&)>& show,
                                   const std::function<void(const std::string&)>& tell) {
  for (std::size_t i = 0; i + 1 < devices.size(); ++i) {
    try {
      const std::unique_ptr<Device> device = devices[i].open();
      tell("computing the final report on " + device->description());
      return show(*device);
    } catch (...) {
      const Error error = current_error();
      if (error.code() == ErrorCode::kCancelled) throw;
      tell(fmt::format("the final report is computed on {} instead of {}: {}", devices[i + 1].name,
                       devices[i].name, error.message()));
    }
  }
  return show(*devices.back().open());
}

}  // namespace weft::apps

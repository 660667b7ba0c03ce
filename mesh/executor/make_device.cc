#include "mesh/executor/make_device.h"

#include <optional>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "core/cuda_support/cuda_support.h"
#include "core/cuda_support/open_gpu_plugin.h"
#include "core/device/emulated_device.h"
#include "transfer/nccl/collective_host.h"

namespace weft::mesh {
namespace {

std::unique_ptr<Device> make_gpu(const DeviceSetup& setup, const PluginSearch& search) {
  const CudaSupport support = cuda_support(search);
  if (!support.unavailable_reason.empty()) {
    throw_error(ErrorCode::kFailedPrecondition,
                "`device: cuda` needs a GPU, and this process can use none: {}",
                support.unavailable_reason);
  }
  CudaDeviceOptions options;
  options.gpu = gpu_for_slot(setup.slot, support.gpus.size(), setup.config.share_gpu);
  options.deterministic = setup.config.deterministic;
  return make_cuda_device(options, search);
}

/// Returns the index of the GPU that make_device() uses, or nothing.
std::optional<int> gpu_of(const DeviceSetup& setup, const PluginSearch& search) {
  if (setup.config.kind != DeviceKind::kCuda && setup.config.kind != DeviceKind::kAuto)
    return std::nullopt;
  const CudaSupport support = cuda_support(search);
  if (support.gpus.empty()) return std::nullopt;
  return gpu_for_slot(setup.slot, support.gpus.size(), setup.config.share_gpu);
}

}  // namespace

DeviceLibrary open_library(const DeviceSetup& setup) {
  DeviceLibrary library;
  library.place.device = setup.data.device;
  if (setup.config.kind == DeviceKind::kCpu || setup.config.kind == DeviceKind::kEmulated)
    return library;
  try {
    const PluginSearch search = plugin_search(plugin_places());
    const std::optional<int> gpu = gpu_of(setup, search);
    if (!gpu) return library;
    library.place.is_gpu = true;
    library.plugin = open_gpu_plugin<transfer::CollectivesPlugin>(search);
    library.place.processor = library.plugin->processor(*gpu);
    library.place.library_host = transfer::collective_host_name();
    library.collectives = library.plugin->make_collectives({.gpu = *gpu});
    library.place.library = library.plugin->library();
  } catch (const Error& error) {
    library.place.library_error = error.message();
  }
  return library;
}

Hardware machine_hardware() { return {make_device, open_library}; }

int gpu_for_slot(int slot, std::size_t gpus, bool share_gpu) {
  const int count = gpus;
  if (slot >= count && !share_gpu) {
    throw_error(ErrorCode::kFailedPrecondition,
                "this is device {} of its machine, which has {} GPU{}: give the hosts there fewer "
                "`devices`, or say `share_gpu: "
                "true` under "
                "`cluster`",
                slot + 1, count, count == 1 ? "" : "s");
  }
  return slot % count;
}

std::unique_ptr<Device> make_device(const DeviceSetup& setup) {
  const auto cpu = [&] {
    return std::make_unique<CpuDevice>(
        CpuDeviceOptions{.threads = setup.config.threads, .instruction_set = {}});
  };
  switch (setup.config.kind) {
    case DeviceKind::kCpu: return cpu();
    case DeviceKind::kEmulated:
      return std::make_unique<EmulatedDevice>(EmulatedDeviceOptions{setup.config.flops_per_second},
                                              std::make_unique<SystemWaitableClock>());
    case DeviceKind::kCuda: return make_gpu(setup, plugin_search(plugin_places()));
    case DeviceKind::kAuto: {
      const PluginSearch search = plugin_search(plugin_places());
      if (cuda_support(search).gpus.empty()) return cpu();
      return make_gpu(setup, search);
    }
  }
  throw_error(ErrorCode::kInvalidArgument, "no kind of device has number {}",
              static_cast<int>(setup.config.kind));
}

}  // namespace weft::mesh

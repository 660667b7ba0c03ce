#include "mesh/device_actor/make_device.h"

#include "core/base/error.h"
#include "core/cuda_support/cuda_support.h"
#include "core/device_cpu/cpu_device.h"
#include "core/device_emulated/emulated_device.h"

namespace weft::mesh {
namespace {

std::unique_ptr<Device> make_gpu(const DeviceSetup& setup, const PluginSearch& search) {
  const CudaSupport support = cuda_support(search);
  if (!support.missing.empty()) {
    throw_error(ErrorCode::kFailedPrecondition, "`device: cuda` needs a GPU, and this process can use none: {}", support.missing);
  }
  CudaDeviceOptions options;
  options.gpu = gpu_for_slot(setup.slot, support.gpus.size(), setup.share_gpu);
  return make_cuda_device(options, search);
}

}  // namespace

int gpu_for_slot(int slot, std::size_t gpus, bool share_gpu) {
  const int count = static_cast<int>(gpus);
  if (slot >= count && !share_gpu) {
    throw_error(ErrorCode::kFailedPrecondition,
                "this is device {} of its machine, which has {} GPU{}: give the hosts there fewer `devices`, or say `share_gpu: "
                "true` under "
                "`cluster`",
                slot + 1, count, count == 1 ? "" : "s");
  }
  return slot % count;
}

std::unique_ptr<Device> make_device(const DeviceSetup& setup) {
  const auto cpu = [&] { return std::make_unique<CpuDevice>(CpuDeviceOptions{.threads = setup.threads, .instruction_set = {}}); };
  switch (setup.kind) {
    case DeviceKind::kCpu: return cpu();
    case DeviceKind::kEmulated:
      return std::make_unique<EmulatedDevice>(EmulatedDeviceOptions{setup.flops_per_second}, std::make_unique<SystemTimer>());
    case DeviceKind::kCuda: return make_gpu(setup, plugin_search(plugin_places()));
    case DeviceKind::kAuto: {
      const PluginSearch search = plugin_search(plugin_places());
      if (cuda_support(search).gpus.empty()) return cpu();
      return make_gpu(setup, search);
    }
  }
  throw_error(ErrorCode::kInvalidArgument, "no kind of device has number {}", static_cast<int>(setup.kind));
}

}  // namespace weft::mesh

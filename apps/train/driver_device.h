#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/run_files/run_summary.h"
#include "core/device/device.h"
#include "core/device/device_config.h"

namespace weft::apps {

/// Device for computations of the driver itself after training.
struct DriverDevice {
  std::string name;  ///< "GPU 0", "the CPU"
  /// Opens the device. Throws Error if it does not exist or cannot be used.
  std::function<std::unique_ptr<Device>()> open;
};

/// Lists this machine's devices, best first: GPUs if the run's devices are GPUs, then the CPU.
/// Under `device: cuda` the list has a GPU even on a machine without one; opening it throws the
/// reason.
std::vector<DriverDevice> driver_devices(const DeviceConfig& config);

/// Calls `show` with the first device on which it succeeds. Reports each device that fails, such as
/// a GPU without free memory, by a call of `tell`. Throws the last device's error, and
/// Error(kCancelled) of any device.
FinalReport report_on_first_device(const std::vector<DriverDevice>& devices,
                                   const std::function<FinalReport(Device&)>& show,
                                   const std::function<void(const std::string&)>& tell);

}  // namespace weft::apps

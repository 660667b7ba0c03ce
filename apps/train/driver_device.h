#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/run_files/run_summary.h"
#include "core/device/device.h"
#include "core/device/device_config.h"

namespace weft::apps {

/// A device for what the driver computes itself, when training is over.
struct DriverDevice {
  std::string name;  ///< "GPU 0", "the CPU"
  /// Throws Error where there is none, or it cannot be used.
  std::function<std::unique_ptr<Device>()> open;
};

/// This machine's, the best first: GPUs where the run's devices are GPUs, then the CPU. Under
/// `device: cuda` a machine without a GPU has one too, which cannot be opened and says why.
std::vector<DriverDevice> driver_devices(const DeviceConfig& config);

/// Shows on the first of `devices` that can be opened and gets to the end; which others failed (a
/// GPU whose memory somebody else holds), and why, `tell` is told, a line each. Throws the last
/// one's error, and Error(kCancelled) of any.
FinalReport show_on(const std::vector<DriverDevice>& devices,
                    const std::function<FinalReport(Device&)>& show,
                    const std::function<void(const std::string&)>& tell);

}  // namespace weft::apps

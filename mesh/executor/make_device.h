#pragma once

#include <functional>
#include <memory>

#include "core/device/device.h"
#include "mesh/executor/device_setup.h"
#include "transfer/nccl/collectives_plugin.h"
#include "transfer/nccl/device_path.h"

namespace weft::mesh {

/// The device that a setup asks for. Throws Error(kFailedPrecondition) if it asks for a GPU that
/// this process cannot have, and says why.
std::unique_ptr<Device> make_device(const DeviceSetup& setup);

/// The library by which a device reaches others of its kind, as far as it has one.
struct DeviceLibrary {
  transfer::DevicePlace place;
  /// Null for what is not a GPU, or has no library.
  std::unique_ptr<transfer::CollectivesPlugin> plugin;
  std::unique_ptr<transfer::DeviceCollectives> collectives = {};  ///< As the plugin.
};

/// What a device process gets its device from; tests have their own.
struct Hardware {
  std::function<std::unique_ptr<Device>(const DeviceSetup&)> make_device;
  std::function<DeviceLibrary(const DeviceSetup&)> open_library;
};

/// The library for the device that make_device() gives. Never throws Error: what is missing, the
/// place says.
DeviceLibrary open_library(const DeviceSetup& setup);

/// This machine's.
Hardware machine_hardware();

/// The GPU, of so many on the machine, for a device in this slot. Throws Error(kFailedPrecondition)
/// if there are fewer and they are not shared.
int gpu_for_slot(int slot, std::size_t gpus, bool share_gpu);

}  // namespace weft::mesh

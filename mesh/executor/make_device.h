#pragma once

#include <functional>
#include <memory>

#include "core/device/device.h"
#include "mesh/executor/device_setup.h"
#include "transfer/nccl/collectives_plugin.h"
#include "transfer/nccl/device_path.h"

namespace weft::mesh {

/// Creates the device that the setup asks for. Throws Error(kFailedPrecondition) with the reason if
/// this process cannot use the GPU that it asks for.
std::unique_ptr<Device> make_device(const DeviceSetup& setup);

/// Collective library through which a GPU reaches other GPUs, if available.
struct DeviceLibrary {
  transfer::DeviceCapabilities place;
  /// Null if the device is no GPU or has no library.
  std::unique_ptr<transfer::CollectivesPlugin> plugin;
  std::unique_ptr<transfer::DeviceCollectives> collectives = {};  ///< Null if `plugin` is.
};

/// Factories of devices and libraries. Tests supply their own.
struct Hardware {
  std::function<std::unique_ptr<Device>(const DeviceSetup&)> make_device;
  std::function<DeviceLibrary(const DeviceSetup&)> open_library;
};

/// Opens the library for the device that make_device() creates. Throws no Error:
/// `place.library_error` says what is missing.
DeviceLibrary open_library(const DeviceSetup& setup);

/// Returns the factories for this machine.
Hardware machine_hardware();

/// Returns the index of the GPU for the device in `slot`, of `gpus` on the machine. Throws
/// Error(kFailedPrecondition) if there are fewer GPUs than slots and they are not shared.
int gpu_for_slot(int slot, std::size_t gpus, bool share_gpu);

}  // namespace weft::mesh

#pragma once

#include <memory>

#include "core/device/device.h"
#include "mesh/device_actor/device_setup.h"

namespace weft::mesh {

/// The device that a setup asks for. Throws Error(kFailedPrecondition) if it asks for a GPU that this process cannot have, and
/// says why.
std::unique_ptr<Device> make_device(const DeviceSetup& setup);

/// The GPU, of so many on the machine, for a device in this slot. Throws Error(kFailedPrecondition) if there are fewer and they
/// are not shared.
int gpu_for_slot(int slot, std::size_t gpus, bool share_gpu);

}  // namespace weft::mesh

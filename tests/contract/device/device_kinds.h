#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace weft::test {

/// Kind of device under test.
struct KindOfDevice {
  std::string name;
  /// Throws Error(kFailedPrecondition), with the reason, if this machine has no such device.
  std::function<std::unique_ptr<Device>()> make;
};

/// Returns all kinds of devices. Add new back ends here.
std::vector<KindOfDevice> device_kinds();

}  // namespace weft::test

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace weft::test {

/// A kind of device under test.
struct KindOfDevice {
  std::string name;
  /// Throws Error(kFailedPrecondition), with the reason, where this machine has none.
  std::function<std::unique_ptr<Device>()> make;
};

/// A new back end joins by adding itself here.
std::vector<KindOfDevice> device_kinds();

}  // namespace weft::test

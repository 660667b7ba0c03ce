#pragma once

#include <memory>

#include "core/base/platform.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Factory of the wires of a simulated world, in place of all transports; see Platform.
class WireNetwork {
 public:
  virtual ~WireNetwork() = default;
  /// Returns the network of the simulation; null in a real process, and if it has none.
  static WireNetwork* simulated() { return dynamic_cast<WireNetwork*>(Platform::simulated()); }
  /// Creates the wire of a device of the process that runs now.
  virtual std::unique_ptr<Wire> make_wire(DeviceId self) = 0;
};

}  // namespace weft::transfer

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/secret.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// The transport of a run that names none.
inline constexpr const char* kDefaultTransport = "ucx";

/// What every transport is told; all devices of a run have the same transport and secret.
struct WireSettings {
  std::string transport = kDefaultTransport;
  /// Known to the devices that may send to each other, and to nobody else. Not empty.
  Secret secret;
  /// Network interfaces to use, "lo" or "eth0,eth1"; empty: the transport chooses.
  std::string interfaces;
};

/// A wire of the transport that the settings name. Throws Error(kInvalidArgument) if there is none
/// of that name, and what making it throws.
///
/// A new transport is a folder beside transfer/wire_ucx, a row of the table in make_wire.cc, and a
/// world in tests/contract/wire.
std::unique_ptr<Wire> make_wire(DeviceId self, HostId host, const WireSettings& settings);

/// The names that settings may have.
std::vector<std::string> transport_names();

}  // namespace weft::transfer

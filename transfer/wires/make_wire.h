#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/secret.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Transport of a run that names none.
inline constexpr const char* kDefaultTransport = "ucx";

/// Settings of any transport. All devices of a run have the same transport and secret.
struct WireSettings {
  std::string transport = kDefaultTransport;
  /// Secret shared by exactly the devices that may send to each other. Not empty.
  Secret secret;
  /// Network interfaces to use, such as "lo" or "eth0,eth1". Empty: the transport chooses.
  std::string interfaces;
};

/// Creates a wire of the transport that `settings` names. Throws Error(kInvalidArgument) for an
/// unknown name, and the errors of the transport.
///
/// A new transport is a folder beside transfer/wire_ucx, a row of the table in make_wire.cc, and a
/// world in tests/contract/wire.
std::unique_ptr<Wire> make_wire(DeviceId self, HostId host, const WireSettings& settings);

/// Returns the valid names of transports.
std::vector<std::string> transport_names();

}  // namespace weft::transfer

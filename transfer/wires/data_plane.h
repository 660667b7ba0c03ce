#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/secret.h"
#include "core/codec/codec.h"
#include "transfer/topology/topology.h"
#include "transfer/wires/make_wire.h"

namespace weft::transfer {

/// What a process must be told before others can reach it on the data plane. Travels in control
/// messages only, to who knows the token.
struct DataPlaneSetup {
  DeviceId device;
  HostId host;
  std::uint64_t epoch = 0;  ///< Of the run; names its transfers.
  /// Network interfaces that it listens on, as its transport names them; empty: all.
  std::string interfaces = {};
  Secret::Bytes secret = {};                  ///< Of the run's data connections; see WireSettings.
  std::string transport = kDefaultTransport;  ///< Equal on all devices of the run.
  static constexpr auto fields = weft::fields(&DataPlaneSetup::device, &DataPlaneSetup::host,
                                              &DataPlaneSetup::epoch, &DataPlaneSetup::interfaces,
                                              &DataPlaneSetup::secret, &DataPlaneSetup::transport);
};

/// How to reach a device of the run; the address is TransferEngine::address().
struct PeerAddress {
  DeviceId device;
  HostId host;
  std::vector<std::byte> address;
  static constexpr auto fields =
      weft::fields(&PeerAddress::device, &PeerAddress::host, &PeerAddress::address);
};

/// Throws what make_wire() throws.
inline std::unique_ptr<Wire> make_wire(const DataPlaneSetup& setup) {
  return make_wire(setup.device, setup.host,
                   {setup.transport, Secret(setup.secret), setup.interfaces});
}

}  // namespace weft::transfer

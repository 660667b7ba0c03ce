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

/// Settings with which a process opens its data plane. Sent in control messages only, to processes
/// that know the token.
struct DataPlaneSetup {
  DeviceId device;
  HostId host;
  std::uint64_t epoch = 0;  ///< Incarnation of the run; part of its TransferIds.
  /// Network interfaces to listen on, as the transport names them. Empty: the transport chooses.
  std::string interfaces = {};
  Secret::Bytes secret = {};  ///< Secret of the run's data connections; see WireSettings.
  std::string transport = kDefaultTransport;  ///< Transport, equal on all devices of the run.
  static constexpr auto fields = weft::fields(&DataPlaneSetup::device, &DataPlaneSetup::host,
                                              &DataPlaneSetup::epoch, &DataPlaneSetup::interfaces,
                                              &DataPlaneSetup::secret, &DataPlaneSetup::transport);
};

/// Address of a device of the run, as TransferEngine::address() returns it.
struct PeerAddress {
  DeviceId device;
  HostId host;
  std::vector<std::byte> address;
  static constexpr auto fields =
      weft::fields(&PeerAddress::device, &PeerAddress::host, &PeerAddress::address);
};

/// Creates the wire. Throws the errors of make_wire(DeviceId, HostId, WireSettings).
inline std::unique_ptr<Wire> make_wire(const DataPlaneSetup& setup) {
  return make_wire(setup.device, setup.host,
                   {setup.transport, Secret(setup.secret), setup.interfaces});
}

}  // namespace weft::transfer

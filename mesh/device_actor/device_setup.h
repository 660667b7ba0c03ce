#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/codec/codec.h"
#include "transfer/topology/topology.h"

namespace weft::mesh {

/// What a device actor must know of itself before it can be reached.
struct DeviceSetup {
  transfer::DeviceId device;
  transfer::HostId host;
  std::uint64_t epoch = 0;  ///< Of the run; names its transfers.
  int threads = 1;          ///< Of the device's matrix products.
  /// Network interfaces that the data plane listens on, as UCX names them; empty: all.
  std::string interfaces = {};
  static constexpr auto fields = weft::fields(&DeviceSetup::device, &DeviceSetup::host, &DeviceSetup::epoch,
                                              &DeviceSetup::threads, &DeviceSetup::interfaces);
};

/// How to reach a device of the run.
struct PeerAddress {
  transfer::DeviceId device;
  transfer::HostId host;
  std::vector<std::byte> address;
  static constexpr auto fields = weft::fields(&PeerAddress::device, &PeerAddress::host, &PeerAddress::address);
};

}  // namespace weft::mesh

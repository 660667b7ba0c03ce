#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/codec/codec.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// Content of UcxWire::address(). UCX trusts the addresses it is given, so damage must be detected
/// here.
struct UcxAddress {
  /// Addresses of the workers on one network interface; see WorkerSet.
  struct RailAddress {
    std::vector<std::byte> sending, receiving;
    static constexpr auto fields = weft::fields(&RailAddress::sending, &RailAddress::receiving);
  };

  std::uint32_t magic = 0;
  DeviceId device;
  HostId host;
  std::int32_t pid = 0;
  std::vector<RailAddress> tcp;
  std::vector<std::byte> shm;
  /// Networks, such as "10.9.0.1 (eth0)", for messages.
  std::string network;
  std::uint64_t check = 0;

  /// Builds the address of this process.
  static UcxAddress of(DeviceId device, HostId host, std::vector<RailAddress> tcp,
                       std::vector<std::byte> shm, std::string network);
  /// Decodes an address. Throws Error(kInvalidArgument) unless the bytes are the undamaged address
  /// of `device`.
  static UcxAddress parse(DeviceId device, std::span<const std::byte> bytes);

  static constexpr auto fields =
      weft::fields(&UcxAddress::magic, &UcxAddress::device, &UcxAddress::host, &UcxAddress::pid,
                   &UcxAddress::tcp, &UcxAddress::shm, &UcxAddress::network, &UcxAddress::check);
};

}  // namespace weft::transfer

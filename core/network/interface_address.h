#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/codec/codec.h"

namespace weft {

/// Address of a network interface of this machine. A value.
struct InterfaceAddress {
  std::string interface;         ///< "eth0"
  std::string address;           ///< "10.9.0.1", "fd00::1"
  std::uint32_t prefix = 0;      ///< Bits of the address that name its network.
  std::int64_t speed_mbit = -1;  ///< As the system states it; -1: unknown, as of most virtual ones.

  friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
  static constexpr auto fields =
      weft::fields(&InterfaceAddress::interface, &InterfaceAddress::address,
                   &InterfaceAddress::prefix, &InterfaceAddress::speed_mbit);
};

/// Addresses of all interfaces of this network namespace that are up: IPv4, and IPv6 but for
/// link-local ones. Any thread.
std::vector<InterfaceAddress> interface_addresses();

/// The same, but none where the variable UCX_NET_DEVICES is set: whoever starts this process leaves
/// the choice of interfaces to UCX, which reads it. Any thread.
std::vector<InterfaceAddress> addresses_for_tensors();

/// The interface that has `address`; empty if none has.
std::string interface_of(const std::vector<InterfaceAddress>& addresses, std::string_view address);

/// Whether an address in digits is one of the machine itself alone: 127.0.0.0/8 or ::1.
bool is_loopback_address(std::string_view address);

/// Whether an address in digits stands for all addresses of a machine: 0.0.0.0 or ::.
bool is_wildcard_address(std::string_view address);

/// Addresses at which a socket that is bound to `bound` is reached: those of all interfaces for a
/// wildcard, else `bound` itself. Loopback is left out where there are others.
std::vector<InterfaceAddress> reachable_addresses(const std::string& bound,
                                                  const std::vector<InterfaceAddress>& own);

/// Name of the network of an address: "10.9.0.0/24" as bits. Equal for addresses of one network.
std::string network_of(const InterfaceAddress& address);

/// "10.9.0.1 (eth0)", for messages.
std::string to_string(const InterfaceAddress& address);

}  // namespace weft

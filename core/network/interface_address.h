#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/codec/codec.h"

namespace weft {

/// Address of a network interface of this machine.
struct InterfaceAddress {
  std::string interface;     ///< "eth0"
  std::string address;       ///< "10.9.0.1", "fd00::1"
  std::uint32_t prefix = 0;  ///< Length of the network prefix in bits.
  /// Speed reported by the system; -1: unknown, as for most virtual ones.
  std::int64_t speed_mbit = -1;

  friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
  static constexpr auto fields =
      weft::fields(&InterfaceAddress::interface, &InterfaceAddress::address,
                   &InterfaceAddress::prefix, &InterfaceAddress::speed_mbit);
};

/// Returns the addresses of all interfaces of this network namespace that are up: IPv4, and IPv6
/// except link-local ones. Thread-safe.
std::vector<InterfaceAddress> interface_addresses();

/// Returns interface_addresses(), or none if the variable UCX_NET_DEVICES is set. The user then
/// leaves the choice of interfaces to UCX, which reads the variable. Thread-safe.
std::vector<InterfaceAddress> addresses_for_tensors();

/// Returns the name of the interface that has `address`. Otherwise "lo" for a loopback address,
/// else "".
std::string interface_of(const std::vector<InterfaceAddress>& addresses, std::string_view address);

/// Returns true for a numeric address in 127.0.0.0/8 or ::1, which only the machine itself can
/// reach.
bool is_loopback_address(std::string_view address);

/// Returns true for a numeric address that stands for all addresses of a machine: 0.0.0.0 or ::.
bool is_wildcard_address(std::string_view address);

/// Returns the addresses at which a socket bound to `bound` can be reached: those of all interfaces
/// for a wildcard, else `bound` itself. Loopback is omitted if there are others.
std::vector<InterfaceAddress> reachable_addresses(const std::string& bound,
                                                  const std::vector<InterfaceAddress>& own);

/// Returns the network prefix of an address as bits, with the address width: "00001010.../32".
/// Equal for addresses of the same network.
std::string network_of(const InterfaceAddress& address);

/// Returns "10.9.0.1 (eth0)", for messages.
std::string to_string(const InterfaceAddress& address);

}  // namespace weft

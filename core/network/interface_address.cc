#include "core/network/interface_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>

namespace weft {
namespace {

/// Returns the speed of an interface in Mbit/s, or -1. Tunnels, bridges and virtio report none or
/// -1.
std::int64_t speed_of(const std::string& interface) {
  std::int64_t speed = -1;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> speed;
  return speed > 0 ? speed : -1;
}

std::span<const std::uint8_t> bytes_of(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return {reinterpret_cast<const std::uint8_t*>(
                &reinterpret_cast<const sockaddr_in*>(address)->sin_addr),
            4};
  return {reinterpret_cast<const std::uint8_t*>(
              &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr),
          16};
}

/// Returns the bits of a numeric address as a string of 0 and 1; "" if it is not an address.
std::string bits_of(const std::string& address) {
  std::array<char, 16> bytes{};
  const bool v6 = address.find(':') != std::string::npos;
  if (::inet_pton(v6 ? AF_INET6 : AF_INET, address.c_str(), bytes.data()) != 1) return "";
  std::string bits;
  for (int bit = 0; bit < (v6 ? 128 : 32); ++bit)
    bits += (static_cast<unsigned char>(bytes[bit / 8]) >> (7 - bit % 8)) & 1 ? '1' : '0';
  return bits;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, &::freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto bytes = bytes_of(each->ifa_addr);
    if (family == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(family, bytes.data(), text.data(), text.size());
    // "eth0:1" is a label of another address of eth0.
    const std::string_view name = each->ifa_name;
    InterfaceAddress address{std::string(name.substr(0, name.find(':'))), text.data()};
    if (each->ifa_netmask != nullptr)
      for (const std::uint8_t part : bytes_of(each->ifa_netmask))
        address.prefix += std::popcount(part);
    address.speed_mbit = speed_of(address.interface);
    addresses.push_back(std::move(address));
  }
  return addresses;
}

std::vector<InterfaceAddress> addresses_for_tensors() {
  return std::getenv("UCX_NET_DEVICES") != nullptr ? std::vector<InterfaceAddress>()
                                                   : interface_addresses();
}

std::string interface_of(const std::vector<InterfaceAddress>& addresses, std::string_view address) {
  for (const InterfaceAddress& each : addresses)
    if (each.address == address) return each.interface;
  return is_loopback_address(address) ? "lo" : "";
}

bool is_loopback_address(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

bool is_wildcard_address(std::string_view address) {
  return address == "0.0.0.0" || address == "::";
}

std::vector<InterfaceAddress> reachable_addresses(const std::string& bound,
                                                  const std::vector<InterfaceAddress>& own) {
  if (!is_wildcard_address(bound)) return {{interface_of(own, bound), bound}};
  std::vector<InterfaceAddress> reached, loopback;
  for (const InterfaceAddress& address : own) {
    const bool v6 = address.address.find(':') != std::string::npos;
    if (v6 && bound == "0.0.0.0") continue;
    (is_loopback_address(address.address) ? loopback : reached).push_back(address);
  }
  return reached.empty() ? loopback : reached;
}

std::string network_of(const InterfaceAddress& address) {
  const std::string bits = bits_of(address.address);
  return fmt::format("{}/{}", bits.substr(0, std::min<std::size_t>(address.prefix, bits.size())),
                     bits.size());
}

std::string to_string(const InterfaceAddress& address) {
  return fmt::format("{} ({})", address.address, address.interface);
}

}  // namespace weft

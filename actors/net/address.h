#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/codec/codec.h"

namespace weft::actors {

/// Listening address: a host (name, IPv4 or IPv6 address) and a TCP port. Port 0: does not listen,
/// or, when listening, the system chooses.
struct Address {
  std::string host;
  std::uint16_t port = 0;

  /// Parses "worker0:7077", "127.0.0.1:0" or "[::1]:7077". Throws Error(kInvalidArgument) that says
  /// what was expected.
  static Address parse(std::string_view text);

  static constexpr auto fields = weft::fields(&Address::host, &Address::port);
  friend bool operator==(const Address&, const Address&) = default;
  friend auto operator<=>(const Address&, const Address&) = default;
};

/// Returns "127.0.0.1:7077" or "[::1]:7077".
std::string to_string(const Address& address);

/// Returns "127.0.0.1" for "localhost", else `host`. Resolvers also return ::1, where another
/// process may listen in place of the one at 127.0.0.1.
const std::string& localhost_to_ipv4(const std::string& host);

/// Returns whether a process that listens at this host listens on every address of its machine.
bool is_any_address(const std::string& host);

/// Returns false if the machine's resolver knows no host of that name. Blocks: the resolver may
/// query other machines.
bool host_resolves(const std::string& host);

}  // namespace weft::actors

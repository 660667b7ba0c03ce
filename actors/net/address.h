#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/codec/codec.h"

namespace weft::actors {

/// Where a process listens: a host (name, IPv4 or IPv6 address) and a TCP port. Port 0 means: does
/// not listen, or, when listening, that the system chooses.
struct Address {
  std::string host;
  std::uint16_t port = 0;

  /// "worker0:7077", "127.0.0.1:0", "[::1]:7077". Throws Error(kInvalidArgument) that says what was
  /// expected.
  static Address parse(std::string_view text);

  static constexpr auto fields = weft::fields(&Address::host, &Address::port);
  friend bool operator==(const Address&, const Address&) = default;
  friend auto operator<=>(const Address&, const Address&) = default;
};

/// "127.0.0.1:7077"; "[::1]:7077".
std::string to_string(const Address& address);

/// "127.0.0.1" for "localhost", else `host`. Resolvers give ::1 too, where anybody may listen in
/// place of a process that listens at 127.0.0.1.
const std::string& fixed_host(const std::string& host);

/// False if the machine's resolver knows no host of that name. Waits for the resolver, which may
/// ask others.
bool is_known_host(const std::string& host);

}  // namespace weft::actors

#include "actors/net/address.h"

#include <fmt/format.h>
#include <netdb.h>

#include <charconv>

#include "core/base/error.h"

namespace weft::actors {

Address Address::parse(std::string_view text) {
  const auto colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == std::string_view::npos ? text.size() : colon);
  const std::string_view port_text =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  unsigned port = 0;
  const auto [end, problem] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (host == "*")
    throw_error(ErrorCode::kInvalidArgument,
                "'{}' is not an address; to listen on all addresses of this machine, use "
                "0.0.0.0:{}",
                text, port_text);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || port_text.empty() || problem != std::errc() ||
      end != port_text.data() + port_text.size() || port > 65535 ||
      (!bracketed && host.find(':') != std::string_view::npos))
    throw_error(ErrorCode::kInvalidArgument,
                "'{}' is not an address; expected HOST:PORT, such as 127.0.0.1:7077 or [::1]:7077",
                text);
  return Address{std::string(host), static_cast<std::uint16_t>(port)};
}

std::string to_string(const Address& address) {
  if (address.host.find(':') != std::string::npos)
    return fmt::format("[{}]:{}", address.host, address.port);
  return fmt::format("{}:{}", address.host, address.port);
}

const std::string& localhost_to_ipv4(const std::string& host) {
  static const std::string kLoopback = "127.0.0.1";
  return host == "localhost" ? kLoopback : host;
}

bool is_any_address(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "::";
}

bool host_resolves(const std::string& host) {
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (found != nullptr) ::freeaddrinfo(found);
  return error != EAI_NONAME;
}

}  // namespace weft::actors

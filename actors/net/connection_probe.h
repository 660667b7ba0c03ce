#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/net/address.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// TCP connection to try: from an address of this machine to one of another.
struct ConnectionProbe {
  std::string from;
  Address to;
  static constexpr auto fields = weft::fields(&ConnectionProbe::from, &ConnectionProbe::to);
};

/// Listener at an address of this machine, to which other machines try to connect. Connections are
/// not accepted and nothing is read: the kernel completes the handshake. One thread at a time.
class ProbeListener final {
 public:
  /// Listens at a port that the system chooses. Throws Error(kUnavailable).
  explicit ProbeListener(const std::string& address);
  ProbeListener(ProbeListener&& other) noexcept;
  ProbeListener& operator=(ProbeListener&&) = delete;
  ~ProbeListener();

  std::uint16_t port() const { return port_; }

 private:
  int fd_ = -1;
  std::uint16_t port_ = 0;
};

/// Set of connection attempts. One thread at a time.
class ConnectionProbes final {
 public:
  /// Starts all attempts without blocking.
  explicit ConnectionProbes(const std::vector<ConnectionProbe>& trials);
  ConnectionProbes(const ConnectionProbes&) = delete;
  ConnectionProbes& operator=(const ConnectionProbes&) = delete;
  ~ConnectionProbes();

  /// Polls without blocking. Returns true once every attempt has succeeded or failed.
  bool poll_once();
  /// Returns 1 for each attempt that has succeeded, else 0.
  const std::vector<std::uint8_t>& reached() const { return reached_; }

 private:
  std::vector<int> fds_;  ///< -1 once the attempt has ended.
  std::vector<std::uint8_t> reached_;
};

}  // namespace weft::actors

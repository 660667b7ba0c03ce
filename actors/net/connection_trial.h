#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/net/address.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// TCP connection to try: from an address of this machine to one of another.
struct ConnectionTrial {
  std::string from;
  Address to;
  static constexpr auto fields = weft::fields(&ConnectionTrial::from, &ConnectionTrial::to);
};

/// Listener at an address of this machine, to which other machines try to connect. Connections are
/// not accepted and nothing is read: the kernel completes the handshake. One thread at a time.
class TrialListener final {
 public:
  /// Listens at a port that the system chooses. Throws Error(kUnavailable).
  explicit TrialListener(const std::string& address);
  TrialListener(TrialListener&& other) noexcept;
  TrialListener& operator=(TrialListener&&) = delete;
  ~TrialListener();

  std::uint16_t port() const { return port_; }

 private:
  int fd_ = -1;
  std::uint16_t port_ = 0;
};

/// Set of connection attempts. One thread at a time.
class ConnectionTrials final {
 public:
  /// Starts all attempts without blocking.
  explicit ConnectionTrials(const std::vector<ConnectionTrial>& trials);
  ConnectionTrials(const ConnectionTrials&) = delete;
  ConnectionTrials& operator=(const ConnectionTrials&) = delete;
  ~ConnectionTrials();

  /// Polls without blocking. Returns true once every attempt has succeeded or failed.
  bool look();
  /// Returns 1 for each attempt that has succeeded, else 0.
  const std::vector<std::uint8_t>& reached() const { return reached_; }

 private:
  std::vector<int> fds_;  ///< -1 once the attempt has ended.
  std::vector<std::uint8_t> reached_;
};

}  // namespace weft::actors

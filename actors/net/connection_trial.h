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

/// Listens at an address of this machine, so that others can try to reach it. Connections are not
/// accepted and nothing is read: the kernel completes the handshake. One thread at a time.
class TrialListener final {
 public:
  /// Throws Error(kUnavailable).
  explicit TrialListener(const std::string& address);
  TrialListener(TrialListener&& other) noexcept;
  TrialListener& operator=(TrialListener&&) = delete;
  ~TrialListener();

  std::uint16_t port() const { return port_; }

 private:
  int fd_ = -1;
  std::uint16_t port_ = 0;
};

/// Connections that are being tried. One thread at a time.
class ConnectionTrials final {
 public:
  /// Starts all of them.
  explicit ConnectionTrials(const std::vector<ConnectionTrial>& trials);
  ConnectionTrials(const ConnectionTrials&) = delete;
  ConnectionTrials& operator=(const ConnectionTrials&) = delete;
  ~ConnectionTrials();

  /// Looks without waiting; true when each has succeeded or failed.
  bool look();
  /// 1 for each that has succeeded, else 0.
  const std::vector<std::uint8_t>& reached() const { return reached_; }

 private:
  std::vector<int> fds_;  ///< -1: over.
  std::vector<std::uint8_t> reached_;
};

}  // namespace weft::actors

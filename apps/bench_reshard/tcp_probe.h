#pragma once

#include <string>
#include <vector>

#include "actors/net/address.h"
#include "core/base/clock.h"

namespace weft::apps {

/// What plain TCP connections carry between hosts, all at once and in both directions: the
/// bandwidth that limits are computed from.
///
/// Per interface one connection out and one in, as iperf3 would do it. One thread at a time.
class TcpProbe final {
 public:
  /// Listens on a port of each address, one per interface. Throws Error(kUnavailable).
  explicit TcpProbe(const std::vector<std::string>& addresses);
  ~TcpProbe();
  TcpProbe(const TcpProbe&) = delete;
  TcpProbe& operator=(const TcpProbe&) = delete;

  /// By interface.
  const std::vector<actors::Address>& listening() const { return listening_; }

  /// Sends to `targets` (by interface) and receives from whoever sends here, from `start` for
  /// `time`. Returns received bytes per second by interface, without the first quarter of the time:
  /// connections start slowly, and idle links have saved up a burst. Blocks. Throws
  /// Error(kUnavailable) when a connection fails.
  std::vector<double> run(const std::vector<actors::Address>& targets, TimePoint start,
                          Nanoseconds time);

 private:
  std::vector<int> listeners_;
  std::vector<actors::Address> listening_;
};

}  // namespace weft::apps

#pragma once

#include <string>
#include <vector>

#include "actors/net/address.h"
#include "core/base/clock.h"

namespace weft::apps {

/// Measures the rate of plain TCP connections between hosts, all at once and in both directions.
/// Limits are computed from it.
///
/// Uses one outgoing and one incoming connection per interface, as iperf3 does. Used by one thread
/// at a time.
class TcpProbe final {
 public:
  /// Listens on a port of each address, one per interface. Throws Error(kUnavailable).
  explicit TcpProbe(const std::vector<std::string>& addresses);
  ~TcpProbe();
  TcpProbe(const TcpProbe&) = delete;
  TcpProbe& operator=(const TcpProbe&) = delete;

  /// Addresses that the probe listens on, by interface.
  const std::vector<actors::Address>& listening() const { return listening_; }

  /// Sends to `targets` (by interface) and receives from one peer per interface, from `start` for
  /// `time`. Returns received bytes per second by interface. Omits the first quarter of the time:
  /// connections start slowly, and idle shaped links allow a burst. Blocks. Throws
  /// Error(kUnavailable) if a connection fails.
  std::vector<double> run(const std::vector<actors::Address>& targets, TimePoint start,
                          Nanoseconds time);

 private:
  std::vector<int> listeners_;
  std::vector<actors::Address> listening_;
};

}  // namespace weft::apps

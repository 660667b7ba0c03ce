#pragma once

#include <vector>

#include "transfer/reshard/internal/pieces.h"
#include "transfer/reshard/internal/weft_problem.h"

namespace weft::transfer::internal {

/// Loads that a plan puts on hosts.
struct HostLoads {
  /// Returns true if the host has time to spare, so that it can yield receivers to urgent senders.
  bool has_time_to_spare(HostId host) const { return busy[host.value()] < kSpareThreshold; }
  /// Returns true if the host has no time to spare while others have.
  bool is_urgent(HostId host) const {
    return has_urgent_sender && busy[host.value()] > kUrgentThreshold;
  }

  /// Shares of the limit's time for which a host sends. A host below kSpareThreshold yields
  /// receivers to hosts above kUrgentThreshold.
  static constexpr double kSpareThreshold = 0.7;
  static constexpr double kUrgentThreshold = 0.9;

  double relayed = 0;  ///< Share of the bytes between hosts that relays send.
  /// Per host, share of the limit's time for which it sends. A host that also receives counts as if
  /// it sent more.
  std::vector<double> busy;
  bool has_spare_sender = false;   ///< True if some sending host has time to spare.
  bool has_urgent_sender = false;  ///< True if also some other host has none.
};

/// Returns the loads that `pieces` put on hosts.
HostLoads host_loads(const WeftProblem& problem, const std::vector<Piece>& pieces);

}  // namespace weft::transfer::internal

#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.h"
#include "transfer/execute/transfer_id.h"

namespace weft::transfer {

/// Transfers that have ended on this device, or have failed elsewhere before they were started
/// here. Remembers the last 4096, so that late messages for them are dropped at once. Transfer
/// thread only.
class EndedTransfers final {
 public:
  void remember(const TransferId& id);
  /// Remembers a transfer that failed elsewhere with `error` and was not started here.
  void remember_failure(const TransferId& id, const Error& error);
  bool contains(const TransferId& id) const { return ids_.contains(id); }
  /// Forgets a transfer, which is started again.
  void forget(const TransferId& id) { ids_.erase(id); }
  /// Removes and returns the error of remember_failure().
  std::optional<Error> take_failure(const TransferId& id);

 private:
  std::unordered_set<TransferId> ids_;
  std::unordered_map<TransferId, Error> failures_;
  std::deque<TransferId> order_;  // bounds ids_ and failures_
};

}  // namespace weft::transfer

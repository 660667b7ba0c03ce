#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/simulation/max_min_shares.h"
#include "core/simulation/task_graph.h"

namespace weft::internal {

/// Movements under way (SharedLinks::Sharing::kFair). Each queue grants its slots in order of
/// arrival. A movement with a slot gets its weighted max-min fair share of the links that it
/// crosses. The caller advances the time. Borrows the links and movements.
class FairLinks {
 public:
  explicit FairLinks(const SharedLinks& links) : links_(links) {}

  /// Starts to move `amount` of `movement`. A lower `order` gets slots of a queue first.
  void add(TaskId task, const Movement& movement, std::uint64_t order, double amount);
  /// Returns the time at which the next movement ends, or nullopt if none moves.
  std::optional<double> next_end();
  /// Advances the time, at most to next_end().
  void advance(double time);
  /// Movement that take_ended() removed.
  struct Ended {
    TaskId task;
    double moved_at = 0;                ///< Time at which it first moved.
    std::optional<TaskId> predecessor;  ///< Movement whose end freed its slot or link then.
  };
  Ended take_ended();

 private:
  struct Moving {
    TaskId task;
    const Movement* movement = nullptr;
    std::uint64_t order = 0;
    double left = 0;
    /// Weight, scaled by the fraction of `slots` that its queue granted.
    double effective_weight = 0;
    double rate = 0;
    std::optional<double> moved_at;
    std::optional<TaskId> predecessor;
  };

  void compute_shares();

  const SharedLinks& links_;
  std::vector<Moving> all_;  ///< Sorted by order.
  MaxMinShares shares_;
  std::vector<double> taken_;  ///< Slots taken so far, indexed by queue.
  double now_ = 0;
  std::optional<TaskId> last_ended_;
  bool changed_ = false;
};

}  // namespace weft::internal

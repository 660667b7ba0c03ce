#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/simulation/max_min_shares.h"
#include "core/simulation/task_graph.h"

namespace weft::internal {

/// Movements under way (SharedLinks::Sharing::kFair). In each queue the first to come have the
/// places; who has one gets its max-min fair share, by weights, of the links that it crosses. The
/// caller moves the time on. Borrows the links and movements.
class FairLinks {
 public:
  explicit FairLinks(const SharedLinks& links) : links_(links) {}

  /// So much of `movement` can move from now on. `order`: lower ones get the places of a queue
  /// first.
  void add(TaskId task, const Movement& movement, std::uint64_t order, double amount);
  /// When the first one is over if none comes before; nothing while there is none.
  std::optional<double> next_end();
  /// Lets the time pass; must not go beyond next_end().
  void advance(double time);
  /// Ends the one of next_end().
  struct Ended {
    TaskId task;
    double moved_at = 0;          ///< When it first moved.
    std::optional<TaskId> after;  ///< Whose end had made room for it then.
  };
  Ended take_ended();

 private:
  struct Moving {
    TaskId task;
    const Movement* movement = nullptr;
    std::uint64_t order = 0;
    double left = 0;
    double granted = 0;  ///< Of its weight.
    double rate = 0;
    std::optional<double> moved_at;
    std::optional<TaskId> after;
  };

  void share_out();

  const SharedLinks& links_;
  std::vector<Moving> all_;  ///< By order.
  MaxMinShares shares_;
  std::vector<double> taken_;  ///< By queue: places, by those before.
  double now_ = 0;
  std::optional<TaskId> last_ended_;
  bool changed_ = false;
};

}  // namespace weft::internal

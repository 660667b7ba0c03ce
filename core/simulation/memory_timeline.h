#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace weft {

/// Amount of memory held from `time` on.
struct MemoryLevel {
  double time = 0;
  double held = 0;
};

/// Allocations and releases over time in one memory, and the amount held at each time.
class MemoryTimeline {
 public:
  void clear() { changes_.clear(); }
  void change(double time, double amount) {
    if (amount != 0) changes_.emplace_back(time, amount);
  }
  /// Holds `amount` from one time to another. No effect if to <= from.
  void hold(double from, double to, double amount) {
    if (to <= from) return;
    change(from, amount);
    change(to, -amount);
  }

  /// Returns the largest amount held. Memory released at a time is available to allocations at the
  /// same time.
  double peak() {
    double most = 0;
    walk([&](double, double held) { most = std::max(most, held); });
    return most;
  }
  /// Returns one level for each time at which the amount changes.
  std::vector<MemoryLevel> levels() {
    std::vector<MemoryLevel> result;
    walk([&](double time, double held) {
      if (!result.empty() && result.back().time == time) result.back().held = held;
      else result.push_back({time, held});
    });
    return result;
  }

 private:
  template <typename Visit>
  void walk(const Visit& visit) {
    std::ranges::sort(changes_);
    double held = 0;
    for (const auto& [time, amount] : changes_) {
      held += amount;
      visit(time, held);
    }
  }

  std::vector<std::pair<double, double>> changes_;  ///< Time and change of the amount.
};

}  // namespace weft

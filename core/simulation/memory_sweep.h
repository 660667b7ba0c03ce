#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace weft {

/// What is held from `time` on.
struct MemoryLevel {
  double time = 0;
  double held = 0;
};

/// What comes and goes in one memory, and how much of it is held when. A value.
class MemorySweep {
 public:
  void clear() { changes_.clear(); }
  void change(double time, double amount) {
    if (amount != 0) changes_.emplace_back(time, amount);
  }
  /// Between two moments; nothing if there is no time between them.
  void hold(double from, double to, double amount) {
    if (to <= from) return;
    change(from, amount);
    change(to, -amount);
  }

  /// The most that is held. What is given back at a moment is there for what is taken at the same
  /// moment.
  double peak() {
    double most = 0;
    walk([&](double, double held) { most = std::max(most, held); });
    return most;
  }
  /// One level a moment at which something changes.
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

  std::vector<std::pair<double, double>> changes_;  ///< Time, amount.
};

}  // namespace weft

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "mesh/schedule/schedule.h"
#include "mesh/schedule/vocabulary.h"

namespace weft::mesh {

/// The place of an action in a schedule.
struct ActionPlace {
  std::size_t actor = 0;
  std::size_t index = 0;  ///< In the actor's list.
  friend bool operator==(const ActionPlace&, const ActionPlace&) = default;
};

/// An action in the one order of all actors' actions, and when it runs if all take their nominal
/// times.
struct OrderedAction {
  ActionPlace place;
  double start = 0;
  double finish = 0;
};

/// Puts the actions of all actors in one sequence that their own orders and the data allow:
/// whichever can start first comes first, the lower actor on a tie (JaxPP's walk;
/// reference/schedules.md 1.3). `schedule` must be valid. By default F, I, W and R take 1, B takes
/// 2, S and T a tenth, transfers nothing.
std::vector<OrderedAction> order_actions(const Schedule& schedule, std::span<const StageEdge> edges,
                                         const VocabularyTimes& times = {});

/// Safe mode: every transfer is one element of the one order, where the action that makes its
/// tensor would be over. `run(place)` runs an action and gives what it has made for other actors,
/// in order; `move(tensor)` moves one of these.
template <typename Run, typename Move>
void walk_total_order(std::span<const OrderedAction> order, const Run& run, const Move& move) {
  using Tensor = typename decltype(run(ActionPlace{}))::value_type;
  struct Made {
    double at = 0;
    Tensor tensor;
  };
  std::vector<Made> waiting;  // By time, then in the order of making.
  const auto move_until = [&](double now) {
    std::size_t done = 0;
    for (; done < waiting.size() && waiting[done].at <= now; ++done) move(waiting[done].tensor);
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(done));
  };
  for (const OrderedAction& ordered : order) {
    move_until(ordered.start);
    for (Tensor& tensor : run(ordered.place)) {
      const auto later =
          std::upper_bound(waiting.begin(), waiting.end(), ordered.finish,
                           [](double at, const Made& other) { return at < other.at; });
      waiting.insert(later, {ordered.finish, std::move(tensor)});
    }
  }
  move_until(std::numeric_limits<double>::infinity());
}

/// What is certainly over when an action begins, by data and by the actors' orders alone.
class ActionHistory {
 public:
  ActionHistory(const Schedule& schedule, std::span<const StageEdge> edges,
                const std::vector<OrderedAction>& order);

  /// The first action of `actor` before which `past` is certainly over; the number of the actor's
  /// actions if there is none.
  std::size_t first_after(const ActionPlace& past, std::size_t actor) const;

 private:
  /// [actor][index][other actor]: so many of its actions are over.
  std::vector<std::vector<std::vector<std::uint32_t>>> over_;
};

}  // namespace weft::mesh

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

/// Position of an action in a schedule.
struct ActionPlace {
  std::size_t actor = 0;
  std::size_t index = 0;  ///< Index in the actor's list.
  friend bool operator==(const ActionPlace&, const ActionPlace&) = default;
};

/// Action in the total order of all actors' actions, with its times if all actions take their
/// nominal durations. Members of a compound are neighbours, and have the times of the compound.
struct OrderedAction {
  ActionPlace place;
  double start = 0;
  double finish = 0;
};

/// Merges the actions of all actors into one order that respects each actor's order, the data
/// dependencies and compounds. The action that can start first comes first; on a tie, the lower
/// actor (JaxPP's order). `schedule` must be valid. By default F, I, W and R take 1, B takes 2, S
/// and T take a tenth, and transfers take nothing.
std::vector<OrderedAction> order_actions(const Schedule& schedule, std::span<const StageEdge> edges,
                                         const VocabularyTimes& times = {});

/// Walks the global order of safe mode, in which each transfer follows at the time when the action
/// that computes its tensor would end. `run(place)` runs an action and returns its tensors for
/// other actors, in order. `move(tensor)` transfers one of them.
template <typename Run, typename Move>
void walk_global_order(std::span<const OrderedAction> order, const Run& run, const Move& move) {
  using Tensor = typename decltype(run(ActionPlace{}))::value_type;
  struct Made {
    double at = 0;
    Tensor tensor;
  };
  std::vector<Made> waiting;  // Sorted by time, then by the order in which they were computed.
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

/// Actions that have certainly ended when an action begins, by data dependencies and the actors'
/// orders alone. Members of a compound begin and end together.
class ActionHistory {
 public:
  ActionHistory(const Schedule& schedule, std::span<const StageEdge> edges,
                const std::vector<OrderedAction>& order);

  /// Returns the index of the first action of `actor` before which `past` has certainly ended; the
  /// number of the actor's actions if there is none.
  std::size_t first_action_after(const ActionPlace& past, std::size_t actor) const;

 private:
  /// Number of the other actor's actions that have ended, by [actor][index][other actor].
  std::vector<std::vector<std::vector<std::uint32_t>>> ended_;
};

}  // namespace weft::mesh

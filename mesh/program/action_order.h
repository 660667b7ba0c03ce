#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mesh/pipeline/schedule.h"

namespace weft::mesh {

/// The place of an action in a schedule.
struct ActionPlace {
  std::size_t actor = 0;
  std::size_t index = 0;  ///< In the actor's list.
  friend bool operator==(const ActionPlace&, const ActionPlace&) = default;
};

/// An action in the one order of all actors' actions, with the time at which it would run if F, I, W and R took 1, B took 2 and
/// transfers nothing.
struct OrderedAction {
  ActionPlace place;
  double start = 0;
  double finish = 0;
};

/// Puts the actions of all actors in one sequence that their own orders and the data allow: whichever can start first comes
/// first, the lower actor on a tie (JaxPP's walk; reference/schedules.md 1.3). `schedule` must be valid.
std::vector<OrderedAction> order_actions(const Schedule& schedule, std::span<const StageEdge> edges);

/// What is certainly over when an action begins, by data and by the actors' orders alone.
class ActionHistory {
 public:
  ActionHistory(const Schedule& schedule, std::span<const StageEdge> edges, const std::vector<OrderedAction>& order);

  /// The first action of `actor` before which `past` is certainly over; the number of the actor's actions if there is none.
  std::size_t first_after(const ActionPlace& past, std::size_t actor) const;

 private:
  std::vector<std::vector<std::vector<std::uint32_t>>> over_;  ///< [actor][index][other actor]: so many of its actions are over.
};

}  // namespace weft::mesh

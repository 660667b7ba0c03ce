#pragma once

#include <cstdint>
#include <optional>

#include "transfer/flow/flow.h"

namespace weft::transfer {

/// What a planner may vary. Plans of equal inputs and options are equal.
struct PlanOptions {
  /// Absent: chosen per flow from the links' speed, the flow's depth and the plan's size, so that
  /// filling trees costs about 1 %.
  std::optional<ChunkOptions> chunks;
  /// Of every random choice.
  std::uint64_t seed = 20261121;
  /// kBroadcastSearch: how many partial schedules it looks at. A count, not a time: plans must not
  /// depend on a machine's speed.
  std::uint64_t search_nodes = 100'000;
  /// kWeft: how much simulating it may spend on comparing plans, in edges times events.
  std::uint64_t simulate_steps = 1'500'000;

  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
  static constexpr auto fields =
      weft::fields(&PlanOptions::chunks, &PlanOptions::seed, &PlanOptions::search_nodes,
                   &PlanOptions::simulate_steps);
};

}  // namespace weft::transfer

#pragma once

#include <cstdint>
#include <optional>

#include "transfer/flow/flow.h"

namespace weft::transfer {

/// Parameters of a planner. Equal inputs and options give equal plans.
struct PlanOptions {
  /// Chunk options of all flows. Absent: chosen per flow from the links' speed, the flow's depth
  /// and the plan's size, so that filling trees costs about 1 %.
  std::optional<ChunkOptions> chunks;
  /// Seed of all random choices.
  std::uint64_t seed = 20261121;
  /// Number of partial schedules that kBroadcastSearch visits. A count, not a time, because plans
  /// must not depend on a machine's speed.
  std::uint64_t search_nodes = 100'000;
  /// Budget of kWeft for comparing plans by simulation, in edges times events.
  std::uint64_t simulate_steps = 1'500'000;

  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
  static constexpr auto fields =
      weft::fields(&PlanOptions::chunks, &PlanOptions::seed, &PlanOptions::search_nodes,
                   &PlanOptions::simulate_steps);
};

}  // namespace weft::transfer

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/bench/select/selection_bench.h"
#include "apps/svg/svg.h"

namespace weft::apps {

/// Draws the paper's tables as lines: the normalised score over rounds, with a line per number of
/// partitions. Left: adaptive. Right: always all partitions.
Svg draw_grid(const std::vector<GridCell>& cells, const CentralResult& central,
              const std::string& title);

/// Measured configuration: one process, or a number of partitions, rounds and workers.
struct BenchArm {
  std::string name;
  double visits_per_second = 0, peak_bytes = 0;
  std::optional<double> gap_closed = {};  ///< Null if central greedy was not run.
};

/// Draws the arms as bars: speed, peak memory, and gap_closed() if known.
Svg draw_arms(const std::vector<BenchArm>& arms, const std::string& title);

}  // namespace weft::apps

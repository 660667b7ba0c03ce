#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/bench_select/selection_bench.h"
#include "apps/run_files/svg.h"

namespace weft::apps {

/// The paper's tables as lines: the normalised score over rounds, a line for each number of
/// partitions; adaptive on the left, always all partitions on the right.
Svg draw_grid(const std::vector<GridCell>& cells, const CentralResult& central,
              const std::string& title);

/// A way of choosing: in one process, or by partitions, rounds and workers.
struct BenchArm {
  std::string name;
  double visits_per_second = 0, peak_bytes = 0;
  std::optional<double> gap_share = {};  ///< Unknown without greedy in one process.
};

/// Arms as bars: speed, memory, share of the gap between random and central if it is known.
Svg draw_arms(const std::vector<BenchArm>& arms, const std::string& title);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/selection/objective.h"

namespace weft::apps {

/// Selection problem of the benchmark: one ground set, solved by several arms.
struct SelectionBenchCase {
  std::filesystem::path points;  ///< Point store.
  std::uint64_t count = 1;
  Objective objective;
  std::uint64_t seed = 1;
};

/// Result of greedy selection in one process with the whole ground set in memory, and of a random
/// subset. These are the upper and lower reference of all scores.
struct CentralResult {
  std::int64_t score = 0, random_score = 0;
  double load_seconds = 0, greedy_seconds = 0;
  std::uint64_t peak_bytes = 0;
};

/// Runs greedy selection in this process. Use a new process, so that `peak_bytes` is meaningful.
CentralResult choose_centrally(const SelectionBenchCase& bench);

/// Cell of the paper's tables (Böther et al., appendix): m partitions, r rounds.
struct GridCell {
  bool adaptive = true;
  std::uint32_t partitions = 1, rounds = 1;
  std::int64_t score = 0;
};

/// Runs all of m = 2..32 and r = 1..32 (powers of two), adaptive and fixed, in memory.
std::vector<GridCell> run_grid(const SelectionBenchCase& bench, std::uint32_t delta);

/// Returns the paper's measure 100 (f - lowest) / (central - lowest). `lowest` is the lowest f of
/// all cells.
double normalised(const GridCell& cell, const std::vector<GridCell>& cells,
                  const CentralResult& central);

/// Format the grid with a row per number of partitions and a column per number of rounds. Each cell
/// has normalised() and gap_closed().
std::string grid_text(const std::vector<GridCell>& cells, const CentralResult& central);
std::string grid_json(const std::vector<GridCell>& cells, const CentralResult& central);

/// Returns the share of the gap from a random subset's score to central greedy's that `score`
/// closes. 1 if there is no gap.
double gap_closed(std::int64_t score, const CentralResult& central);

}  // namespace weft::apps

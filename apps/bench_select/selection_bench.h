#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/selection/objective.h"

namespace weft::apps {

/// What is measured: one ground set, chosen from by arms.
struct SelectionBenchCase {
  std::filesystem::path points;  ///< A store.
  std::uint64_t count = 1;
  Objective objective;
  std::uint64_t seed = 1;
};

/// What one process chooses that has the whole ground set in memory: the reference, and the least
/// that any choice is measured by.
struct CentralResult {
  std::int64_t score = 0, random_score = 0;
  double load_seconds = 0, greedy_seconds = 0;
  std::uint64_t peak_bytes = 0;
};

/// In this process, which should be a new one for the peak to mean something.
CentralResult choose_centrally(const SelectionBenchCase& bench);

/// A cell of the paper's tables (Böther et al., appendix): m partitions, r rounds.
struct GridCell {
  bool adaptive = true;
  std::uint32_t partitions = 1, rounds = 1;
  std::int64_t score = 0;
};

/// All of m = 2..32, r = 1..32, adaptive and fixed; in memory.
std::vector<GridCell> run_grid(const SelectionBenchCase& bench, std::uint32_t delta);

/// The paper's measure: 100 (f - lowest) / (central - lowest), where lowest is the lowest f of all
/// cells.
double normalised(const GridCell& cell, const std::vector<GridCell>& cells,
                  const CentralResult& central);

/// Rows of partitions, columns of rounds: normalised(), and the share of the gap between random and
/// central that is closed.
std::string grid_text(const std::vector<GridCell>& cells, const CentralResult& central);
std::string grid_json(const std::vector<GridCell>& cells, const CentralResult& central);

/// Share of the way from a random subset to what greedy chooses centrally.
double gap_share(std::int64_t score, const CentralResult& central);

}  // namespace weft::apps

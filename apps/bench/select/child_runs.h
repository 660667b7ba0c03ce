#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/bench/select/selection_bench.h"

namespace weft::apps {

/// Command-line options of `weft bench select`.
struct SelectBenchOptions {
  std::uint64_t points = 1'000'000;
  std::filesystem::path store;
  double percent = 10;
  std::vector<std::int64_t> weights = {9, 1};
  std::vector<std::uint32_t> partitions = {16}, rounds = {2}, workers = {1, 2};
  std::string memory = "160MiB";
  std::string bounding = "off";
  std::uint64_t seed = 1;
  bool grid = false, no_central = false, central_only = false;

  /// Returns the number of points to choose of `of` points.
  std::uint64_t num_chosen(std::uint64_t of) const {
    return static_cast<std::uint64_t>(static_cast<double>(of) * percent / 100);
  }
};

/// Number of partitions, rounds and workers of a run.
struct SelectArm {
  std::uint32_t partitions = 1, rounds = 1, workers = 1;
};

/// Runs central greedy in a child process (this program with --central-only), so that the peak
/// memory is that of greedy alone. Its output is written to `folder`.
CentralResult run_central(const SelectBenchOptions& options, const std::filesystem::path& folder);

/// Runs `app: select` once, in processes of its own, and returns its summary. `folder` has the run
/// file, the run's folder and its scratch.
nlohmann::ordered_json run_select(const SelectBenchOptions& options, const SelectArm& arm,
                                  const std::filesystem::path& folder);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/random_request.h"
#include "apps/cli/reshard_request.h"

namespace weft::apps {

/// Some of an endless row of random reshardings; the same seed gives the same row.
struct RandomTasks {
  std::size_t first = 0;
  std::size_t last = 0;  ///< Included.
  std::uint64_t seed = kRandomRequestSeed;
};

/// What `weft bench reshard` was asked for.
struct BenchOptions {
  std::vector<std::string> cases;  ///< Empty: all, unless a task or random tasks are asked for.
  /// The user's own; its `rate` does not count, `rate_bits` does.
  std::optional<ReshardRequest> task;
  std::optional<RandomTasks> random;
  std::vector<std::string> strategies;  ///< Empty: all.
  std::uint64_t bytes = std::uint64_t{64} << 20;
  /// At most so many; cases that need more are left out, layouts are made smaller. Not for tasks.
  int hosts = 8;
  std::uint64_t rate_bits = 0;  ///< Per link, each way; 0: by the number of hosts, see rate_for().
  /// Strategies that are expected to reach a smaller part of the best one's speed are not run.
  double least_forecast = 0;
  int repeat = 5;
  bool quick = false;
  bool loopback = false;  ///< On this machine as it is, even where test hosts are to be had.
  std::string json;       ///< A file, "-" for stdout, or empty.
  std::filesystem::path out = "runs/bench-reshard";
};

}  // namespace weft::apps

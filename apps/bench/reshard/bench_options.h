#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/random_request.h"
#include "apps/cli/reshard_request.h"

namespace weft::apps {

/// Range of an endless sequence of random reshardings. The same seed gives the same sequence.
struct RandomTasks {
  std::size_t first = 0;
  std::size_t last = 0;  ///< Inclusive.
  std::uint64_t seed = kRandomRequestSeed;
};

/// Command-line options of `weft bench reshard`.
struct ReshardBenchOptions {
  std::vector<std::string> cases;  ///< Names of cases. Empty: all, unless `task` or `random` is
                                   ///< set.
  /// The user's own task. Its `rate` is ignored in favour of `rate_bits`.
  std::optional<ReshardRequest> task;
  std::optional<RandomTasks> random;
  std::vector<std::string> strategies;  ///< Names of strategies; empty: all.
  std::uint64_t bytes = std::uint64_t{64} << 20;
  /// Most hosts of a case. Cases that need more are skipped; layouts are made smaller. Does not
  /// apply to tasks.
  int hosts = 8;
  std::uint64_t rate_bits = 0;  ///< Bits per second of a link, each way; 0: see rate_for().
  /// Least share of the best strategy's forecast speed; strategies below it are not run.
  double min_forecast_share = 0;
  int repeat = 5;
  bool quick = false;
  bool loopback = false;  ///< True to use loopback even if test hosts are available.
};

}  // namespace weft::apps

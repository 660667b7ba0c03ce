#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::test {

struct EndingOptions {
  int times = 20;  ///< Runs per signal and receiver.
  std::uint64_t seed = 1;
  std::vector<int> signals = {SIGTERM, SIGINT, SIGHUP};
  /// Receivers: "all" processes of the run at once, "driver", "run" (the `weft run`).
  std::vector<std::string> receivers = {"all", "driver", "run"};
};

/// Sends a signal to a training under `weft run` at a random moment after its first step. Prints
/// the results. Returns the number of runs that did not end with status 130, a checkpoint of the
/// last finished step, and no process left.
int count_bad_endings(const EndingOptions& options);

}  // namespace weft::test

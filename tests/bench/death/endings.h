#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::test {

struct EndingOptions {
  int times = 20;  ///< Of each signal and receiver.
  std::uint64_t seed = 1;
  std::vector<int> signals = {SIGTERM, SIGINT, SIGHUP};
  /// Receivers: "all" processes of the run at once, "driver", "run" (the `weft run`).
  std::vector<std::string> receivers = {"all", "driver", "run"};
};

/// Sends a signal to a training under `weft run`, at random moments after its first step. Prints
/// what became of the runs. Returns how many did not end with status 130, a checkpoint of the last
/// finished step, and nothing left.
int count_bad_endings(const EndingOptions& options);

}  // namespace weft::test

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/death/chaotic_run.h"

namespace weft::test {

struct ChaosOptions {
  int runs = 100;
  std::uint64_t seed = 1;  ///< Seed of the first run. Each further run adds 1.
  int steps = 500;
  /// Ways to start the cluster's processes, used in turns: "hand", "local" (weft run), "hosts" (by
  /// hand, on hosts made of namespaces, which can be disconnected).
  std::vector<std::string> clusters = {"hand", "local", "hosts"};
  BlowKinds kinds;
  Trouble::Kind trouble = Trouble::Kind::kNone;
};

/// Returns the lines of losses_of() of an undisturbed run of kChaoticRun. Throws std::runtime_error
/// if the run fails.
std::vector<std::string> losses_undisturbed(int steps);

/// Trains on four hosts of one device and a spare. Kills, stops and disconnects at random times,
/// also while meshes are spawned and the run recovers, and restarts by hand what an operator would.
/// Prints the results. Returns the number of runs that did not end like an undisturbed one: status
/// 0, each step once, every loss bit-identical, no device with two processes, no process left.
int cause_chaos(const ChaosOptions& options);

}  // namespace weft::test

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/death/chaotic_run.h"

namespace weft::test {

struct ChaosOptions {
  int runs = 100;
  std::uint64_t seed = 1;  ///< Of the first run; the others have those after it.
  int steps = 500;
  /// Who starts the cluster's processes, in turns: "hand", "local" (weft run), "hosts" (by hand, on
  /// hosts of namespaces, whose cables are pulled out too).
  std::vector<std::string> clusters = {"hand", "local", "hosts"};
  BlowKinds kinds;
  Trouble::Kind trouble = Trouble::Kind::kNone;
};

/// Lines of losses_of() of a run of ChaoticRun's file to which nothing happens. Throws
/// std::runtime_error if the run fails.
std::vector<std::string> losses_undisturbed(int steps);

/// Trains on four hosts of one device and a spare, while somebody kills, stops and cuts at random
/// times, also while meshes are spawned and while the run recovers, and starts again by hand what
/// an operator would. Prints what became of the runs. Returns how many did not end as an
/// undisturbed one: status 0, each step once, every loss the same bits, no device with two
/// processes, and nothing left.
int cause_chaos(const ChaosOptions& options);

}  // namespace weft::test

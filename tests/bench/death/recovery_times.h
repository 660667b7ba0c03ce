#pragma once

namespace weft::test {

struct RecoveryTimes {
  int repeats = 20;  ///< Kills of each kind of process.
  int rounds = 5;    ///< Pairs of trainings, with and without in-memory copies of the state.
  int steps = 150;   ///< Steps that each of these is timed over.
  bool devices_only = false;  ///< Skip agents, drivers and the cost of copies.
  bool json = false;          ///< Print a line of JSON instead of a table.
};

/// Times recoveries on the quickstart: from SIGKILL of a device, an agent or the driver to the end
/// of the first repeated step in metrics.jsonl. Also times the cost of in-memory copies of the
/// state. Returns the number of kills from which the run did not recover.
int time_recoveries(const RecoveryTimes& options);

}  // namespace weft::test

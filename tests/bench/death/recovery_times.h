#pragma once

namespace weft::test {

struct RecoveryTimes {
  int repeats = 20;  ///< Kills of each kind.
  int rounds = 5;    ///< Trainings with copies of the state in memory, and as many without.
  int steps = 150;   ///< That each of these is timed over.
  bool devices_only = false;  ///< Neither agents and drivers nor copies.
  bool json = false;          ///< One line of JSON instead of a table.
};

/// On the quickstart: from SIGKILL of a device, an agent or the driver to the end of the first step
/// that is repeated, as metrics.jsonl shows it; and what copies of the state cost. Returns how many
/// did not go on.
int time_recoveries(const RecoveryTimes& options);

}  // namespace weft::test

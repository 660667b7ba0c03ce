#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft::apps {

/// Result of one strategy in one case.
struct BenchResult {
  std::string case_name;
  std::string description;
  std::string strategy;
  std::uint64_t bytes = 0;  ///< Total size of the tensors.
  std::size_t hosts = 0;
  double link_bytes_per_second = 0;  ///< Measured rate of a full link; 0: links were not limited.
  std::vector<double> seconds;       ///< One per repetition; empty: planned only.
  double limit_seconds = 0;
  std::string limit_by;             ///< Text such as "1.12 s by ingress of hosts 2, 3".
  double predicted_seconds = 0;     ///< Seconds by the simulator.
  std::uint64_t plan_bytes = 0;     ///< Payload between hosts in the plan.
  std::uint64_t minimum_bytes = 0;  ///< Least payload between hosts of any plan.
  /// Planned payload on the busiest link in one direction. All interfaces of a host are one link.
  double plan_link_bytes = 0;
  /// Bytes that the interfaces of the busiest host counted in one direction, as in wire_bytes.
  double busiest_link_bytes = 0;
  /// Bytes that the interfaces received, headers included; mean over repetitions. 0: not counted.
  double wire_bytes = 0;
  double cpu_seconds = 0;   ///< Total of all hosts' processes; mean over repetitions.
  double plan_seconds = 0;  ///< Planning time in the driver.

  bool was_run() const { return !seconds.empty(); }
  /// These need at least one repetition.
  double minimum() const;
  double median() const;
  double maximum() const;
  /// Returns 1 if nothing crosses the network.
  double ratio_to_limit() const { return limit_seconds > 0 ? limit_seconds / median() : 1; }
  /// Returns the ratio_to_limit() that the simulator predicts.
  double forecast() const {
    return predicted_seconds > 0 && limit_seconds > 0 ? limit_seconds / predicted_seconds : 1;
  }
  /// Returns 0 if nothing was counted or no payload has to cross.
  double wire_over_minimum() const;
  /// Returns CPU seconds per GiB of planned payload between hosts.
  double cpu_seconds_per_gib() const;
  /// Returns the share of one core per Gbit/s that a host sends or receives, averaged over hosts.
  double cpu_per_gbit() const;
};

/// Formats a table for the terminal: a block per case, a row per strategy.
std::string to_table(const std::vector<BenchResult>& results);
/// Formats a Markdown table with a row per case: the task, its limit, the forecast and measured
/// share of the limit, and the fastest other strategy.
std::string to_summary(const std::vector<BenchResult>& results, const std::string& strategy);
/// Returns {"cases": [{"case": ..., "strategy": ..., ...}]}.
std::string to_json(const std::vector<BenchResult>& results);

}  // namespace weft::apps

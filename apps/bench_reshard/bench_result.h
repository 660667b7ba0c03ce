#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft::apps {

/// What one strategy did in one case. A value.
struct BenchResult {
  std::string case_name;
  std::string description;
  std::string strategy;
  std::uint64_t bytes = 0;  ///< Of the tensors.
  std::size_t hosts = 0;
  double link_bytes_per_second = 0;  ///< Of a whole link, as measured; 0: links were not limited.
  std::vector<double> seconds;       ///< By repetition; empty: planned and not run.
  double limit_seconds = 0;
  std::string limit_by;             ///< "1.12 s by ingress of hosts 2, 3".
  double predicted_seconds = 0;     ///< By the simulator.
  std::uint64_t plan_bytes = 0;     ///< Payload between hosts, by the plan.
  std::uint64_t minimum_bytes = 0;  ///< With which any plan must do.
  /// Payload on the link, of one direction, that has most; all interfaces of a host are one.
  double plan_link_bytes = 0;
  /// That its host's interfaces counted, as wire_bytes.
  double busiest_link_bytes = 0;
  /// That the interfaces counted, headers and all: mean over repetitions. 0: not counted.
  double wire_bytes = 0;
  double cpu_seconds = 0;   ///< Of all hosts' processes: mean over repetitions.
  double plan_seconds = 0;  ///< Planning on one host: median over hosts.

  bool was_run() const { return !seconds.empty(); }
  /// Of what was run.
  double minimum() const;
  double median() const;
  double maximum() const;
  /// 1 where nothing has to cross a wire.
  double ratio_to_limit() const { return limit_seconds > 0 ? limit_seconds / median() : 1; }
  /// What the simulator expects of ratio_to_limit().
  double forecast() const {
    return predicted_seconds > 0 && limit_seconds > 0 ? limit_seconds / predicted_seconds : 1;
  }
  /// 0 where nothing was counted.
  double wire_over_minimum() const;
  /// Per GiB that crossed between hosts.
  double cpu_seconds_per_gib() const;
  /// Share of one core per Gbit/s that a host sends or receives, mean over hosts that do.
  double cpu_per_gbit() const;
};

/// One table for the terminal: a block per case, a row per strategy.
std::string to_table(const std::vector<BenchResult>& results);
/// A row per case, in Markdown: what it is, its limit, what the strategy was expected to reach of
/// it and what it has reached, and the fastest of the other strategies.
std::string to_summary(const std::vector<BenchResult>& results, const std::string& strategy);
/// {"cases": [{"case": ..., "strategy": ..., ...}]}
std::string to_json(const std::vector<BenchResult>& results);

}  // namespace weft::apps

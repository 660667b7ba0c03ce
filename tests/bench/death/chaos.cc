#include "tests/bench/death/chaos.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <stdexcept>

#include "apps/bench/test_hosts.h"
#include "tests/bench/death/run_records.h"

namespace weft::test {

std::vector<std::string> losses_undisturbed(int steps) {
  RealProcesses processes("chaos_undisturbed");
  processes.write("run.yaml", kChaoticRun);
  auto& run = processes.run("weft", {"run", "run.yaml", "--out", "out", "--set",
                                     fmt::format("training.steps={}", steps)});
  if (run.wait() != 0) throw std::runtime_error("the undisturbed run failed: " + run.text());
  return losses_of(processes.directory() / "out");
}

int cause_chaos(const ChaosOptions& options) {
  const auto expected = losses_undisturbed(options.steps);
  struct Sum {
    int runs = 0, good = 0, recoveries = 0, driver_restarts = 0, hosts_lost = 0;
    std::map<std::string, int> blows;
    double seconds = 0;
  };
  std::map<std::string, Sum> sums;
  std::vector<std::string> clusters = options.clusters;
  const std::string refusal =
      apps::TestHosts::unsupported_because(RealProcesses::program("weft-hosts"));
  if (!refusal.empty() && std::erase(clusters, "hosts") > 0)
    fmt::print("without cuts: {}\n", refusal);
  int failures = 0;
  for (int i = 0; i < options.runs && !clusters.empty(); ++i) {
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(i);
    const std::string& cluster = clusters[seed % clusters.size()];
    ChaoticRun run({cluster, seed, options.steps, options.kinds, options.trouble});
    const Outcome outcome = run.go(expected);
    Sum& sum = sums[cluster];
    ++sum.runs;
    sum.recoveries += outcome.recoveries;
    sum.driver_restarts += outcome.driver_restarts;
    sum.hosts_lost += outcome.hosts_lost;
    sum.seconds += outcome.seconds;
    int blows = 0;
    for (const auto& [blow, count] : outcome.blows) {
      sum.blows[blow] += count;
      blows += count;
    }
    if (outcome.wrong.empty()) {
      ++sum.good;
      fmt::print("seed {} ({}): as undisturbed after {} blows, {} recoveries, {:.1f} s\n", seed,
                 cluster, blows, outcome.recoveries, outcome.seconds);
      std::fflush(stdout);
      continue;
    }
    ++failures;
    fmt::print("seed {} ({}): {}\n  {}; again: with --clusters {} --runs 1 --seed {}\n", seed,
               cluster, fmt::join(outcome.wrong, "; "), run.keep().string(), cluster, seed);
    std::fflush(stdout);
  }
  fmt::print("{:<8} {:>5} {:>15} {:>11} {:>15} {:>10} {:>12}\n", "cluster", "runs",
             "as undisturbed", "recoveries", "driver restarts", "hosts lost", "s per run");
  std::map<std::string, int> blows;
  for (const auto& [cluster, sum] : sums) {
    fmt::print("{:<8} {:>5} {:>15} {:>11} {:>15} {:>10} {:>12.1f}\n", cluster, sum.runs, sum.good,
               sum.recoveries, sum.driver_restarts, sum.hosts_lost, sum.seconds / sum.runs);
    for (const auto& [blow, count] : sum.blows) blows[blow] += count;
  }
  for (const auto& [blow, count] : blows) fmt::print("{:>6} x {}\n", count, blow);
  return failures;
}

}  // namespace weft::test

#include "tests/bench/death/head_kills.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/bench/death/by_hand_cluster.h"
#include "tests/bench/death/run_records.h"

namespace weft::test {
namespace {

constexpr int kHosts = 2;

}  // namespace

int kill_heads(int kills, int steps) {
  ByHandCluster cluster("head_kills", {.hosts = kHosts});
  if (cluster.start_run("undisturbed", steps).wait(std::chrono::minutes(5)) != 0)
    throw std::runtime_error("the undisturbed run failed");
  const auto expected = losses_of(cluster.directory() / "undisturbed");
  std::mt19937 random(1);
  const auto pause = [&](int most_ms) {
    ::usleep(1000 * std::uniform_int_distribution<int>(0, most_ms)(random));
  };
  int killed = 0, runs = 0, failures = 0;
  while (killed < kills) {
    const std::string out = fmt::format("run{}", ++runs);
    auto& run = cluster.start_run(out, steps);
    std::map<std::string, std::string> devices;
    const int before = killed;
    while (run.wait(std::chrono::milliseconds(1)) < 0) {
      pause(600);
      cluster.kill_head();
      ++killed;
      pause(300);
      cluster.start_next_head();
      for (const auto& [device, pid] : cluster.devices()) {
        const std::string& first = devices.emplace(device, pid).first->second;
        if (first == pid) continue;
        fmt::print("{}: {} has process {}, and had {}\n", out, device, pid, first);
        ++failures;
      }
    }
    const bool same = run.wait() == 0 && losses_of(cluster.directory() / out) == expected;
    fmt::print(
        "run {}: {} heads killed, {}\n", runs, killed - before,
        same ? "each step once, losses as undisturbed" : "NOT as undisturbed:\n" + run.text());
    if (!same) ++failures;
  }
  fmt::print("{} heads killed under load in {} runs of {} steps on {} hosts: {} wrong\n", killed,
             runs, steps, kHosts, failures);
  return failures;
}

}  // namespace weft::test

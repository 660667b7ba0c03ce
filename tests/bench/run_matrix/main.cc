// Times the shipped run file with every schedule and every resharding strategy, on real processes:
// run_matrix [steps [rounds]]. Interleaves the rounds and prints the best of them, as ratios to
// gpipe with send_recv. Also measures the time from `weft run` to the first step, and the memory of
// each kind of process.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "apps/run_files/metrics.h"
#include "core/base/units.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

/// Results of one configuration over all rounds.
struct Measured {
  double step_seconds = 1e9;    ///< Median of the steps; best of the rounds.
  double transfer_seconds = 0;  ///< Transfer time of those steps, mean over devices.
  double exposed_seconds = 0;
  double first_step_seconds = 1e9;  ///< From the start of `weft run` to the first metrics line.
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + (values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Adds the peak memory of every process of the run, by role.
void look_at_memory(const RealProcesses& processes,
                    std::map<std::string, std::uint64_t>& peak_bytes) {
  for (const pid_t pid : processes.left()) {
    const std::string command = read_file(fmt::format("/proc/{}/cmdline", pid));
    const std::string status = read_file(fmt::format("/proc/{}/status", pid));
    const auto at = status.find("VmHWM:");
    if (at == std::string::npos) continue;
    std::string role = "weft run";
    for (const char* name : {"device", "driver", "agent", "head"})
      if (command.find(std::string("--weft-role=") + name) != std::string::npos) role = name;
    auto& bytes = peak_bytes[role];
    bytes =
        std::max<std::uint64_t>(bytes, std::strtoull(status.c_str() + at + 6, nullptr, 10) * 1024);
  }
}

void measure(const std::string& schedule, const std::string& strategy, int steps,
             Measured& measured, std::map<std::string, std::uint64_t>& peak_bytes) {
  RealProcesses processes("bench_quickstart");
  const std::filesystem::path metrics = processes.directory() / "out" / "metrics.jsonl";
  const std::int64_t begun = monotonic_ns();
  auto& run = processes.start(
      "weft", {"run", std::string(WEFT_SOURCE_DIR) + "/cluster.yaml", "--out", "out", "--set",
               "pipeline.schedule=" + schedule, "--set", "pipeline.resharding=" + strategy, "--set",
               fmt::format("training.steps={}", steps), "--set", "training.validate_every=0",
               "--set", "checkpoint.every=0", "--set", "sample.tokens=0"});
  const auto lines = [&] {
    const std::string text = read_file(metrics);
    return std::count(text.begin(), text.end(), '\n');
  };
  const bool begins = eventually([&] { return lines() > 0; }, std::chrono::minutes(2));
  measured.first_step_seconds =
      std::min(measured.first_step_seconds, (monotonic_ns() - begun) * 1e-9);
  eventually([&] { return lines() > steps / 2; }, std::chrono::minutes(5));
  look_at_memory(processes, peak_bytes);
  if (!begins || run.wait(std::chrono::minutes(5)) != 0) {
    std::fprintf(stderr, "%s\n", run.text().c_str());
    std::exit(1);
  }
  std::vector<double> seconds, transfer, exposed;
  for (const apps::StepMetrics& m : apps::read_metrics(metrics)) {
    if (m.step <= steps / 5) continue;  // warm-up
    seconds.push_back(m.seconds);
    transfer.push_back(m.transfer_seconds);
    exposed.push_back(m.exposed_transfer_seconds);
  }
  if (median(seconds) >= measured.step_seconds) return;
  measured.step_seconds = median(seconds);
  measured.transfer_seconds = median(transfer);
  measured.exposed_seconds = median(exposed);
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  using namespace weft::test;
  const int steps = argc > 1 ? std::atoi(argv[1]) : 60;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  const std::vector<std::string> schedules = {"gpipe", "1f1b", "eager-1f1b"};
  const std::vector<std::string> strategies = {"send_recv", "local_allgather", "broadcast", "weft"};
  std::map<std::pair<std::string, std::string>, Measured> all;
  std::map<std::string, std::uint64_t> peak_bytes;
  for (int round = 0; round < rounds; ++round)
    for (const auto& schedule : schedules)
      for (const auto& strategy : strategies)
        measure(schedule, strategy, steps, all[{schedule, strategy}], peak_bytes);

  const double baseline = all[{"gpipe", "send_recv"}].step_seconds;
  fmt::print(
      "| schedule | resharding | step | speed | transfers a step and device | of these exposed | "
      "first step after |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const auto& schedule : schedules)
    for (const auto& strategy : strategies) {
      const Measured& m = all[{schedule, strategy}];
      fmt::print("| {} | {} | {} | {:.2f}x | {} | {:.0f} % | {} |\n", schedule, strategy,
                 weft::format_seconds(m.step_seconds), baseline / m.step_seconds,
                 weft::format_seconds(m.transfer_seconds),
                 m.transfer_seconds > 0 ? 100 * m.exposed_seconds / m.transfer_seconds : 0.0,
                 weft::format_seconds(m.first_step_seconds));
    }
  fmt::print("\nPeak memory of a process:");
  for (const auto& [role, bytes] : peak_bytes)
    fmt::print(" {} {};", role, weft::format_bytes(bytes));
  fmt::print("\n");
  return 0;
}

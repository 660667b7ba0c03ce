#include "tests/bench/death/endings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>

#include "tests/bench/death/chaotic_run.h"
#include "tests/bench/death/roster.h"
#include "tests/bench/death/run_records.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
constexpr auto kEndsWithin = std::chrono::seconds(60);
constexpr int kMomentsWithinMs = 1500;

struct Ending {
  std::vector<std::string> wrong;  ///< Deviations from a correct end; empty if there are none.
  double seconds = 0;              ///< Time from the signal to the end of `weft run`.
};

/// Returns the step of the newest complete checkpoint in OUT/checkpoints; empty if there is none.
std::optional<int> newest_checkpoint(const fs::path& out) {
  std::optional<int> newest;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(out / "checkpoints", none)) {
    int step = 0;
    const std::string name = entry.path().filename().string();
    if (entry.is_symlink() || std::sscanf(name.c_str(), "step-%d", &step) != 1) continue;
    if (name.find('.') == std::string::npos) newest = std::max(newest.value_or(0), step);
  }
  return newest;
}

std::vector<pid_t> receivers(const RealProcesses& processes, const RealProcesses::Process& run,
                             const std::string& who) {
  if (who == "all") return processes.left();
  if (who == "run") return {run.pid};
  if (who != "driver") throw std::runtime_error("no receiver is called '" + who + "'");
  Roster roster(processes);
  roster.look();
  std::vector<pid_t> drivers;
  for (const Roster::Member& driver : roster.living(Roster::Role::kDriver))
    drivers.push_back(driver.pid);
  return drivers;
}

Ending end_a_run(int signal, const std::string& who, int after_ms) {
  RealProcesses processes("ending");
  processes.write("run.yaml", kChaoticRun);
  auto& run =
      processes.start("weft", {"run", "run.yaml", "--out", "out", "--set", "training.steps=1000000",
                               "--set", "checkpoint.every=1000000"});
  const fs::path out = processes.directory() / "out";
  Ending ending;
  if (!eventually([&] { return !losses_of(out).empty(); })) {
    ending.wrong.push_back("no step: " + run.text());
    return ending;
  }
  ::usleep(after_ms * 1000);
  const std::int64_t sent = monotonic_ns();
  for (const pid_t pid : receivers(processes, run, who)) ::kill(pid, signal);
  const int status = run.wait(kEndsWithin);
  ending.seconds = static_cast<double>(monotonic_ns() - sent) / 1e9;
  if (status != 130) ending.wrong.push_back(fmt::format("status {}", status));
  const int steps = static_cast<int>(losses_of(out).size());
  if (const auto newest = newest_checkpoint(out); newest != steps)
    ending.wrong.push_back(fmt::format("{} steps, newest checkpoint {}", steps,
                                       newest ? std::to_string(*newest) : "none"));
  if (!processes.none_left()) ending.wrong.push_back("processes are left");
  if (!ending.wrong.empty()) {
    processes.write("output.txt", run.text());
    processes.keep();
    ending.wrong.push_back(processes.directory().string());
  }
  return ending;
}

}  // namespace

int count_bad_endings(const EndingOptions& options) {
  std::mt19937_64 random(options.seed);
  int bad = 0;
  for (const std::string& who : options.receivers)
    for (const int signal : options.signals) {
      int good = 0;
      double longest = 0;
      for (int i = 0; i < options.times; ++i) {
        const int after_ms = static_cast<int>(random() % kMomentsWithinMs);
        const Ending ending = end_a_run(signal, who, after_ms);
        longest = std::max(longest, ending.seconds);
        good += ending.wrong.empty();
        if (!ending.wrong.empty())
          fmt::print("SIG{} to {} {} ms after the first step: {}\n", ::sigabbrev_np(signal), who,
                     after_ms, fmt::join(ending.wrong, "; "));
      }
      bad += options.times - good;
      fmt::print(
          "SIG{:<5} to {:<7} {:>3} of {} with a checkpoint of the last step; at most {:.1f} s\n",
          ::sigabbrev_np(signal), who, good, options.times, longest);
      std::fflush(stdout);
    }
  return bad;
}

}  // namespace weft::test

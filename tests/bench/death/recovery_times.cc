#include "tests/bench/death/recovery_times.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "tests/bench/death/roster.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

constexpr auto kGoesOnWithin = std::chrono::seconds(60);
/// Steps between two kills, so that both copies of the state are newer than the last recovery.
constexpr int kStepsBetween = 25;
constexpr int kWarmUpSteps = 20;

/// Reader of OUT/metrics.jsonl, which each recovery replaces by another file.
class MetricsWatch {
 public:
  explicit MetricsWatch(std::filesystem::path path) : path_(std::move(path)) {}

  void look() {
    struct stat now {};
    if (::stat(path_.c_str(), &now) != 0) return;
    if (now.st_ino == seen_.st_ino && now.st_size == seen_.st_size) return;
    const bool renewed = now.st_ino != seen_.st_ino || now.st_size < seen_.st_size;
    seen_ = now;
    std::string text = read_file(path_);
    text.resize(text.rfind('\n') + 1);  // std::string::npos + 1 is 0
    const auto line = text.find_last_of('\n', text.size() - 2);
    last_ =
        text.empty()
            ? 0
            : nlohmann::json::parse(text.substr(line == std::string::npos ? 0 : line + 1))["step"]
                  .get<std::int64_t>();
    if (!renewed) return;
    ++renewals_;
    first_ = last_;
  }
  int renewals() const { return renewals_; }
  /// First step that the current file was seen with, and the newest step.
  std::int64_t first() const { return first_; }
  std::int64_t last() const { return last_; }

 private:
  const std::filesystem::path path_;
  struct stat seen_ {};
  int renewals_ = 0;
  std::int64_t first_ = 0, last_ = 0;
};

/// Quickstart under `weft run`. The destructor ends it.
class Quickstart {
 public:
  explicit Quickstart(const std::vector<std::string>& settings)
      : processes_("recovery_times"),
        roster_(processes_),
        metrics_(processes_.directory() / "out/metrics.jsonl") {
    std::vector<std::string> words = {
        "run",   WEFT_SOURCE_DIR "/cluster.yaml", "--out", "out",
        "--set", "training.steps=1000000",        "--set", "recovery.restarts=1000000"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    run_ = &processes_.start("weft", words);
  }
  ~Quickstart() {
    // The second SIGINT that does not count as an echo ends the run at once.
    do ::kill(run_->pid, SIGINT);
    while (run_->wait(std::chrono::milliseconds(100)) < 0);
  }
  Quickstart(const Quickstart&) = delete;
  Quickstart& operator=(const Quickstart&) = delete;

  MetricsWatch& metrics() { return metrics_; }
  /// Waits for `step`. Returns false if the run ends or does not reach it in time.
  bool reach(std::int64_t step) {
    return eventually([&] {
             metrics_.look();
             return metrics_.last() >= step || run_->wait(std::chrono::milliseconds(0)) >= 0;
           }) &&
           metrics_.last() >= step;
  }
  struct Recovery {
    double ms = 0;
    std::int64_t repeated = 0;
  };
  /// Kills a process of this role and waits for the first repeated step. Empty if there is no such
  /// process, or no repeated step in time.
  std::optional<Recovery> kill_one(Roster::Role role, unsigned which) {
    roster_.look();
    const auto candidates = roster_.living(role);
    if (candidates.empty()) return std::nullopt;
    metrics_.look();
    const int renewals = metrics_.renewals();
    std::int64_t reached = metrics_.last();
    const std::int64_t killed = monotonic_ns();
    ::kill(candidates[which % candidates.size()].pid, SIGKILL);
    const bool again = eventually(
        [&] {
          metrics_.look();
          if (metrics_.renewals() != renewals) return metrics_.last() > metrics_.first();
          reached = metrics_.last();
          return false;
        },
        kGoesOnWithin);
    if (!again) return std::nullopt;
    return Recovery{(monotonic_ns() - killed) / 1e6, reached - metrics_.first()};
  }
  std::string text() const { return run_->text(); }

 private:
  RealProcesses processes_;
  Roster roster_;
  MetricsWatch metrics_;
  RealProcesses::Process* run_ = nullptr;
};

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

/// Returns the recoveries until the run fails to go on.
std::vector<Quickstart::Recovery> kill_again_and_again(Roster::Role role, int repeats,
                                                       const std::vector<std::string>& settings) {
  Quickstart run(settings);
  std::vector<Quickstart::Recovery> recoveries;
  std::mt19937 random(1);
  const auto upto = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  std::int64_t from = 0;
  for (int i = 0; i < repeats; ++i) {
    const auto recovery = run.reach(from + kStepsBetween + upto(10))
                              ? (::usleep(1000 * upto(100)), run.kill_one(role, upto(100)))
                              : std::nullopt;
    if (!recovery) {
      fmt::print("it did not go on after {} of {} kills:\n{}\n", i, repeats, run.text());
      break;
    }
    recoveries.push_back(*recovery);
    from = run.metrics().first();
  }
  return recoveries;
}

/// Returns milliseconds per step.
double time_steps(int steps, int copy_every) {
  Quickstart run({fmt::format("recovery.copy_every={}", copy_every), "training.validate_every=0",
                  "checkpoint.every=0"});
  if (!run.reach(kWarmUpSteps)) throw std::runtime_error("no training: " + run.text());
  const std::int64_t begun = monotonic_ns(), from = run.metrics().last();
  if (!run.reach(from + steps)) throw std::runtime_error("no training: " + run.text());
  return (monotonic_ns() - begun) / 1e6 / static_cast<double>(run.metrics().last() - from);
}

}  // namespace

int time_recoveries(const RecoveryTimes& options) {
  struct Kind {
    const char* name;
    Roster::Role role;
    std::vector<std::string> settings;
  };
  std::vector<Kind> kinds = {{"device", Roster::Role::kDevice, {}}};
  if (!options.devices_only) {
    kinds.push_back({"agent", Roster::Role::kAgent, {}});
    // A killed driver loses the copies in memory; only checkpoints remain.
    kinds.push_back({"driver", Roster::Role::kDriver, {"checkpoint.every=10"}});
  }
  int failures = 0;
  nlohmann::ordered_json json;
  for (const Kind& kind : kinds) {
    const auto recoveries = kill_again_and_again(kind.role, options.repeats, kind.settings);
    failures += options.repeats - static_cast<int>(recoveries.size());
    if (recoveries.empty()) continue;
    std::vector<double> ms, repeated;
    for (const auto& recovery : recoveries) {
      ms.push_back(recovery.ms);
      repeated.push_back(static_cast<double>(recovery.repeated));
    }
    json[kind.name] = {{"ms", ms}, {"steps_repeated", repeated}};
    if (options.json) continue;
    fmt::print(
        "{:<7} killed: the first step is done again after median {:.0f} ms, worst {:.0f} ms; steps "
        "repeated: median {:.0f}, most {:.0f} ({} kills)\n",
        kind.name, median_of(ms), std::ranges::max(ms), median_of(repeated),
        std::ranges::max(repeated), ms.size());
    std::fflush(stdout);
  }
  if (!options.devices_only && options.rounds > 0) {
    std::vector<double> with, without, ratios;
    for (int round = 0; round < options.rounds; ++round) {
      // Alternate which of the two is first.
      const bool copies_first = round % 2 == 0;
      const double a = time_steps(options.steps, copies_first ? 10 : 0);
      const double b = time_steps(options.steps, copies_first ? 0 : 10);
      with.push_back(copies_first ? a : b);
      without.push_back(copies_first ? b : a);
      ratios.push_back(with.back() / without.back());
    }
    json["copies"] = {{"ms_per_step_with", with}, {"ms_per_step_without", without}};
    if (!options.json)
      fmt::print(
          "a step with a copy of the state every 10: {:.2f} ms, without: {:.2f} ms; ratio of "
          "medians "
          "{:.3f}, of rounds {:.3f}\n",
          median_of(with), median_of(without), median_of(with) / median_of(without),
          fmt::join(ratios, ", "));
  }
  if (options.json) fmt::print("{}\n", json.dump());
  return failures;
}

}  // namespace weft::test

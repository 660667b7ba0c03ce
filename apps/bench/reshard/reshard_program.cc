#include "apps/bench/reshard/reshard_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/bench/reshard/bench_case.h"
#include "apps/bench/reshard/bench_cluster.h"
#include "apps/bench/reshard/bench_result.h"
#include "apps/bench/reshard/ratio_plot.h"
#include "apps/bench/reshard/reshard_bench.h"
#include "apps/cli/random_request.h"
#include "apps/cli/request_options.h"
#include "apps/cli/reshard_request.h"
#include "core/base/error.h"
#include "core/base/terminal.h"

namespace weft::apps {
namespace {

constexpr std::size_t kMostRandomTasks = 1'000'000;

/// Parses "0..29" or "7".
RandomTasks parse_random_tasks(const std::string& text, std::uint64_t seed) {
  RandomTasks tasks;
  tasks.seed = seed;
  const char* const end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, tasks.first);
  tasks.last = tasks.first;
  if (parsed.ec == std::errc() && std::string_view(parsed.ptr, end).starts_with(".."))
    parsed = std::from_chars(parsed.ptr + 2, end, tasks.last);
  if (parsed.ec != std::errc() || parsed.ptr != end || tasks.first > tasks.last ||
      tasks.last > kMostRandomTasks)
    throw_error(ErrorCode::kInvalidArgument,
                "--random {}: expected FIRST..LAST, such as 0..29, at most {}", text,
                kMostRandomTasks);
  return tasks;
}

/// Lists the cases and strategies for --list.
std::string list_reshard_cases(const ReshardBenchOptions& options) {
  std::string text;
  for (const BenchCase& bench : bench_cases(options))
    text += fmt::format("{:<16} {} hosts, {}\n", bench.reshard.name, bench.num_hosts(),
                        bench.reshard.description);
  return text + fmt::format("strategies: {}\n", fmt::join(bench_strategies(options), ", "));
}

/// `weft bench reshard`.
class ReshardProgram final : public BenchProgram {
 public:
  Description description() const override {
    return {.name = "reshard",
            .purpose =
                "Reshardings on hosts with shaped links, beside the physical limit and other "
                "strategies.",
            .example = "weft bench reshard --cases paper-3 --rate 500mbit",
            .folder = "runs/bench-reshard",
            .folder_holds = "results, picture and logs"};
  }
  void register_actors(actors::AppMain& app) const override { app.provide<ReshardHost>(); }

  void add_options(CLI::App& app) override {
    add_case_options(app);
    app.add_option("--hosts", options_.hosts, "Cases with at most so many hosts")
        ->capture_default_str()
        ->check(CLI::Range(2, 64));
    app.add_option("--mib", mib_, "Size of the tensors in MiB")
        ->capture_default_str()
        ->check(CLI::Range(1, 1 << 20))
        ->type_name("N");
    app.add_option("--repeat", options_.repeat, "Repetitions")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    app.add_flag(
        "--quick", options_.quick,
        "Only weft, broadcast and send_recv, and what takes long once; within eight minutes");
    app.add_flag("--loopback", options_.loopback, "Use loopback without limited links");
    app.add_flag("--list", list_cases_, "Show the cases and strategies, and run nothing");
  }

  std::optional<int> complete_options(const CLI::App& app) override {
    options_.bytes = mib_ << 20;
    if (!task_.rate.empty()) options_.rate_bits = parse_link_rate("--rate", task_.rate);
    if (std::ranges::any_of(task_options_,
                            [](const CLI::Option* option) { return option->count() > 0; }))
      options_.task = task_;
    if (app.count("--random") > 0) options_.random = parse_random_tasks(random_, seed_);
    if (options_.quick && app.count("--repeat") == 0) options_.repeat = 3;
    if (list_cases_) {
      say(stdout, "{}", wrapped_for_terminal(STDOUT_FILENO, list_reshard_cases(options_), 17));
      return 0;
    }
    cases_ = bench_cases(options_);
    strategies_ = bench_strategies(options_);
    return std::nullopt;
  }

  int measure(const BenchOutput& output) override {
    return run_until_signal([&](const std::stop_token& stop) {
      const std::vector<BenchResult> results = run_cases(output, stop);
      if (cases_.size() > 1)
        output.print(fmt::format("\n{}", to_summary(results, strategies_.front())));
      const auto picture = draw_ratios(results, "Resharding: share of the physical limit");
      if (picture) picture->write(output.folder() / "ratios.svg");
      output.publish(to_json(results));
      output.print(fmt::format(
          "\n{0}/results.json has all of it{1}\n", output.folder().string(),
          picture ? fmt::format(", {}/ratios.svg is a picture", output.folder().string())
                  : "; cases below 2 MiB are in no picture"));
      return 0;
    });
  }

 private:
  void add_case_options(CLI::App& app) {
    const auto list = [&](const char* name, std::vector<std::string>& into, const char* help) {
      app.add_option(name, into, help)->delimiter(',')->type_name("NAME,...");
    };
    list("--cases", options_.cases, "Cases; all unless given");
    list("--strategies", options_.strategies, "Strategies; all unless given");
    task_.rate.clear();
    task_options_ =
        add_request_options(app, task_, "A resharding of your own, as in weft plan --reshard");
    app.get_option("--rate")
        ->description(
            "Speed of every host's link, each way; default: 2 Gbit/s over the number of hosts")
        ->group("Options");
    app.add_option("--random", random_,
                   "Random tasks FIRST to LAST of an endless sequence, such as 0..29")
        ->type_name("FIRST..LAST");
    app.add_option("--seed", seed_, "Of the random tasks")->capture_default_str();
    app.add_option("--least-forecast", options_.min_forecast_share,
                   "Leave out strategies that are expected to be slower than the best one by this "
                   "factor (0.5: half as fast)")
        ->type_name("RATIO")
        ->check(CLI::Range(0.0, 1.0));
  }

  /// Returns the options of a cluster that is large enough for all cases.
  TestCluster::Options cluster_options(const BenchOutput& output) const {
    TestCluster::Options cluster =
        bench_cluster_options(description(), output, 0, options_.loopback,
                              "the links are not limited, so ratios say little");
    cluster.failure_scope = actors::FailureScope::kOneMesh;
    for (const BenchCase& bench : cases_) {
      cluster.hosts = std::max<int>(cluster.hosts, bench.num_hosts());
      cluster.nics = std::max<int>(cluster.nics, bench.num_nics());
    }
    return cluster;
  }

  std::vector<BenchResult> run_cases(const BenchOutput& output, const std::stop_token& stop) {
    const TestCluster::Options cluster = cluster_options(output);
    TestCluster processes(cluster);
    BenchCluster hosts(processes, cluster.hosts);
    ReshardBench bench(hosts, {.strategies = strategies_,
                               .repeat = options_.repeat,
                               .single_run_factor = options_.quick ? 1.8 : 0,
                               .min_forecast_share = options_.min_forecast_share,
                               .stop = stop,
                               .progress = BenchOutput::report_progress});
    std::vector<BenchResult> results;
    for (const BenchCase& one : cases_) {
      const auto rows = one.killed_relay ? std::vector{bench.run_with_death(one, strategies_.at(0))}
                                         : bench.run(one);
      output.print(to_table(rows));
      results.insert(results.end(), rows.begin(), rows.end());
      output.save(to_json(results));
    }
    return results;
  }

  ReshardBenchOptions options_;
  ReshardRequest task_;
  std::vector<CLI::Option*> task_options_;  ///< Options of `task_`.
  std::string random_;
  std::uint64_t seed_ = kRandomRequestSeed;  ///< Seed of the random tasks.
  std::uint64_t mib_ = options_.bytes >> 20;
  bool list_cases_ = false;
  std::vector<BenchCase> cases_;
  std::vector<std::string> strategies_;
};

}  // namespace

std::unique_ptr<BenchProgram> make_reshard_program() { return std::make_unique<ReshardProgram>(); }

}  // namespace weft::apps

// weft bench reshard: measures reshardings on hosts with shaped links, and compares them with the
// physical limit and other strategies.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "actors/launch/roles.h"
#include "apps/bench_reshard/bench_case.h"
#include "apps/bench_reshard/bench_cluster.h"
#include "apps/bench_reshard/bench_result.h"
#include "apps/bench_reshard/ratio_plot.h"
#include "apps/bench_reshard/reshard_bench.h"
#include "apps/cli/end_parsing.h"
#include "apps/cli/random_request.h"
#include "apps/cli/request_options.h"
#include "apps/cli/reshard_request.h"
#include "apps/test_cluster/bench_program.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/non_blocking_output.h"
#include "core/base/terminal.h"

namespace weft::apps {
namespace {

constexpr std::size_t kMostRandomTasks = 1'000'000;

int run_bench(const BenchOptions& options, const std::stop_token& stop) {
  // The result of --json - goes to stdout, where writes must block until it is read.
  const NonBlockingOutput output(options.json == "-" ? NonBlockingOutput::Streams::kErrorOnly
                                                     : NonBlockingOutput::Streams::kBoth);
  const std::vector<BenchCase> cases = bench_cases(options);
  const std::vector<std::string> strategies = bench_strategies(options);
  TestCluster::Options cluster;
  cluster.name = "weft bench reshard";
  cluster.failure_scope = actors::FailureScope::kOneMesh;
  cluster.executable = std::filesystem::read_symlink("/proc/self/exe");
  cluster.directory = options.out / "cluster";
  for (const BenchCase& bench : cases) {
    cluster.hosts = std::max<int>(cluster.hosts, bench.num_hosts());
    cluster.nics = std::max<int>(cluster.nics, bench.num_nics());
  }
  // The JSON document alone goes to stdout with --json -.
  std::FILE* terminal = options.json == "-" ? stderr : stdout;
  cluster.hosts_tool = find_hosts_tool(options.loopback,
                                       "the links are not limited, so ratios say little", terminal);
  std::filesystem::create_directories(options.out);

  std::vector<BenchResult> results;
  {
    TestCluster processes(cluster);
    BenchCluster hosts(processes, cluster.hosts);
    ReshardBench bench(hosts, {.strategies = strategies,
                               .repeat = options.repeat,
                               .single_run_factor = options.quick ? 1.8 : 0,
                               .min_forecast_share = options.min_forecast_share,
                               .stop = stop,
                               .progress = [](const std::string& line) {
                                 say(stderr, "{}\n", line);
                                 std::fflush(stderr);
                               }});
    for (const BenchCase& one : cases) {
      const auto rows = one.killed_relay ? std::vector{bench.run_with_death(one, strategies.at(0))}
                                         : bench.run(one);
      say(terminal, "{}", to_table(rows));
      std::fflush(terminal);
      results.insert(results.end(), rows.begin(), rows.end());
      // Saves the results so far, in case a later case fails.
      write_in_place(options.out / "results.json", to_json(results));
    }
  }
  if (cases.size() > 1) say(terminal, "\n{}", to_summary(results, strategies.front()));
  const auto picture = draw_ratios(results, "Resharding: share of the physical limit");
  if (picture) picture->write(options.out / "ratios.svg");
  if (options.json == "-") say(stdout, "{}", to_json(results));
  else if (!options.json.empty()) write_in_place(options.json, to_json(results));
  say(terminal, "\n{0}/results.json has all of it{1}\n", options.out.string(),
      picture ? fmt::format(", {}/ratios.svg is a picture", options.out.string())
              : "; cases below 2 MiB are in no picture");
  return 0;
}

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

int parse_and_run(int argc, char** argv) {
  BenchOptions options;
  CLI::App app(
      "Reshardings on hosts with shaped links, beside the physical limit and other strategies.",
      "weft bench reshard");
  app.footer("Example:\n  weft bench reshard --cases paper-3 --rate 500mbit");
  app.get_formatter()->column_width(34);
  ReshardRequest task;
  task.rate.clear();
  const auto list = [&](const char* name, std::vector<std::string>& into, const char* help) {
    app.add_option(name, into, help)->delimiter(',')->type_name("NAME,...");
  };
  list("--cases", options.cases, "Cases; all unless given");
  list("--strategies", options.strategies, "Strategies; all unless given");
  const std::vector<CLI::Option*> task_options =
      add_request_options(app, task, "A resharding of your own, as in weft plan --reshard");
  app.get_option("--rate")
      ->description(
          "Speed of every host's link, each way; default: 2 Gbit/s over the number of hosts")
      ->group("Options");
  std::string random;
  const auto* random_option =
      app.add_option("--random", random,
                     "Random tasks FIRST to LAST of an endless sequence, such as 0..29")
          ->type_name("FIRST..LAST");
  std::uint64_t seed = kRandomRequestSeed;
  app.add_option("--seed", seed, "Of the random tasks")->capture_default_str();
  app.add_option("--least-forecast", options.min_forecast_share,
                 "Leave out strategies that are expected to be slower than the best one by this "
                 "factor (0.5: half as fast)")
      ->type_name("RATIO")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--hosts", options.hosts, "Cases with at most so many hosts")
      ->capture_default_str()
      ->check(CLI::Range(2, 64));
  std::uint64_t mib = options.bytes >> 20;
  app.add_option("--mib", mib, "Size of the tensors in MiB")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  app.add_option("--repeat", options.repeat, "Repetitions")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag(
      "--quick", options.quick,
      "Only weft, broadcast and send_recv, and what takes long once; within eight minutes");
  app.add_flag("--loopback", options.loopback, "Use loopback without limited links");
  app.add_option("--json", options.json, "Write the results there; - for stdout")
      ->type_name("FILE");
  app.add_option("--out", options.out, "Folder for results, picture and logs")
      ->capture_default_str()
      ->type_name("DIR");
  bool list_cases = false;
  app.add_flag("--list", list_cases, "Show the cases and strategies, and run nothing");
  if (const std::optional<int> status = parse_words(app, argc, argv)) return *status;
  options.bytes = mib << 20;
  if (!task.rate.empty()) options.rate_bits = parse_link_rate("--rate", task.rate);
  if (std::ranges::any_of(task_options,
                          [](const CLI::Option* option) { return option->count() > 0; }))
    options.task = task;
  if (random_option->count() > 0) options.random = parse_random_tasks(random, seed);
  if (options.quick && app.count("--repeat") == 0) options.repeat = 3;
  if (list_cases) {
    std::string text;
    for (const BenchCase& bench : bench_cases(options))
      text += fmt::format("{:<16} {} hosts, {}\n", bench.reshard.name, bench.num_hosts(),
                          bench.reshard.description);
    text += fmt::format("strategies: {}\n", fmt::join(bench_strategies(options), ", "));
    say(stdout, "{}", wrapped_for_terminal(STDOUT_FILENO, text, 17));
    return 0;
  }
  return run_until_signal([&](const std::stop_token& stop) { return run_bench(options, stop); });
}

}  // namespace
}  // namespace weft::apps

int main(int argc, char** argv) {
  return weft::apps::run_bench_program(
      argc, argv,
      {.name = "weft bench reshard",
       .register_actors =
           [](weft::actors::AppMain& app) { app.provide<weft::apps::ReshardHost>(); },
       .measure = weft::apps::parse_and_run});
}

// weft bench reshard: reshardings on hosts with real (shaped) links, beside the physical limit and the other strategies.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <stop_token>

#include "actors/launch/roles.h"
#include "apps/reshard_bench/bench_case.h"
#include "apps/reshard_bench/bench_cluster.h"
#include "apps/reshard_bench/bench_result.h"
#include "apps/reshard_bench/ratio_plot.h"
#include "apps/reshard_bench/reshard_bench.h"
#include "apps/test_cluster/bench_program.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

int run_bench(const BenchOptions& options, const std::stop_token& stop) {
  const std::vector<BenchCase> cases = bench_cases(options);
  const std::vector<std::string> strategies = bench_strategies(options);
  TestCluster::Options cluster;
  cluster.name = "weft bench reshard";
  cluster.fate = actors::ClusterOptions::Fate::kOneMesh;
  cluster.executable = std::filesystem::read_symlink("/proc/self/exe");
  cluster.directory = options.out / "cluster";
  for (const BenchCase& bench : cases) {
    cluster.hosts = std::max(cluster.hosts, static_cast<int>(bench.num_hosts()));
    cluster.nics = std::max(cluster.nics, static_cast<int>(bench.num_nics()));
  }
  // With --json - the document alone stands on stdout.
  std::FILE* terminal = options.json == "-" ? stderr : stdout;
  cluster.hosts_tool = find_hosts_tool(options.loopback, "the links are not limited, so ratios say little", terminal);
  std::filesystem::create_directories(options.out);

  std::vector<BenchResult> results;
  {
    TestCluster processes(cluster);
    BenchCluster hosts(processes, static_cast<std::size_t>(cluster.hosts));
    ReshardBench bench(hosts, {strategies, options.repeat, options.quick ? 1.8 : 0, stop, [](const std::string& line) {
                                 fmt::print(stderr, "{}\n", line);
                                 std::fflush(stderr);
                               }});
    for (const BenchCase& one : cases) {
      const auto rows = one.killed_relay ? std::vector{bench.run_with_death(one, strategies.at(0))} : bench.run(one);
      fmt::print(terminal, "{}", to_table(rows));
      std::fflush(terminal);
      results.insert(results.end(), rows.begin(), rows.end());
      // Whatever comes later, what has been measured is kept.
      write_text(options.out / "results.json", to_json(results));
    }
  }
  draw_ratios(results, "Resharding: share of the physical limit").write(options.out / "ratios.svg");
  if (options.json == "-") fmt::print("{}", to_json(results));
  else if (!options.json.empty()) write_text(options.json, to_json(results));
  fmt::print(terminal, "\n{0}/results.json has all of it, {0}/ratios.svg is a picture\n", options.out.string());
  return 0;
}

int parse_and_run(int argc, char** argv) {
  BenchOptions options;
  CLI::App app("Reshardings on hosts with shaped links, beside the physical limit and other strategies.", "weft bench reshard");
  app.get_formatter()->column_width(34);
  std::string rate;
  const auto list = [&](const char* name, std::vector<std::string>& into, const char* help) {
    app.add_option(name, into, help)->delimiter(',')->type_name("NAME,...");
  };
  list("--cases", options.cases, "Cases; all unless given");
  list("--strategies", options.strategies, "Strategies; all unless given");
  app.add_option("--rate", rate, "Of each link, both ways; default: 2 Gbit/s over the number of hosts")->type_name("250mbit");
  app.add_option("--hosts", options.hosts, "Use at most so many hosts")->capture_default_str()->check(CLI::Range(2, 64));
  app.add_option("--mib", options.bytes, "Size of the tensors in MiB; default: 64")
      ->transform([](const std::string& text) { return std::to_string(std::stoull(text) << 20); }, "MiB", "MiB")
      ->type_name("N");
  app.add_option("--repeat", options.repeat, "Repetitions")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_flag("--quick", options.quick, "Only weft, broadcast and send_recv, and what takes long once; within eight minutes");
  app.add_flag("--loopback", options.loopback, "On this machine as it is, without links that are limited");
  app.add_option("--json", options.json, "Write the results there; - for stdout")->type_name("FILE");
  app.add_option("--out", options.out, "Folder for results, picture and logs")->capture_default_str()->type_name("DIR");
  bool list_cases = false;
  app.add_flag("--list", list_cases, "Show the cases and strategies, and run nothing");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!rate.empty()) options.rate_bits = parse_link_rate("--rate", rate);
  if (options.quick && app.count("--repeat") == 0) options.repeat = 3;
  if (list_cases) {
    for (const BenchCase& bench : bench_cases(options))
      fmt::print("{:<16} {} hosts, {}\n", bench.reshard.name, bench.num_hosts(), bench.reshard.description);
    fmt::print("strategies: {}\n", fmt::join(bench_strategies(options), ", "));
    return 0;
  }
  return run_interruptible([&](const std::stop_token& stop) { return run_bench(options, stop); });
}

}  // namespace
}  // namespace weft::apps

int main(int argc, char** argv) {
  return weft::apps::run_bench_program(argc, argv,
                                       {.name = "weft bench reshard",
                                        .provide = [](weft::actors::AppMain& app) { app.provide<weft::apps::ReshardHost>(); },
                                        .measure = weft::apps::parse_and_run});
}

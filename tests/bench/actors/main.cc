// Times actors on a cluster of this machine: calls, starts and restarts, and calls over plain
// sockets as their baseline. Prints one line of JSON per scenario. tests/bench/peers/actors runs
// it beside Ray and Monarch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "tests/bench/actors/scenarios.h"

namespace weft {
namespace {

using nlohmann::json;

/// Runs a scenario and prints its figures, or its error. Returns true if it succeeded.
bool report(const std::string& scenario, const std::function<json()>& run) {
  json line = {{"scenario", scenario}};
  try {
    line.update(run());
  } catch (const Error& error) {
    line["error"] = error.message();
  }
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
  return !line.contains("error");
}

/// Returns the arguments of a cluster. Its actors need no devices.
std::vector<std::string> cluster_arguments(const char* program, const ScenarioOptions& options,
                                           const std::string& out) {
  return {program, "--workers", std::to_string(options.hosts), "--devices", "1", "--out", out};
}

int serve(std::vector<std::string> arguments, const actors::AppMain::Drive& drive) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  actors::AppMain app(static_cast<int>(argv.size()), argv.data());
  provide_actors(app);
  return app.run(drive);
}

int run(const char* program, const std::vector<std::string>& scenarios,
        const ScenarioOptions& options, const std::string& out) {
  const auto chosen = [&](const std::string& name) {
    return scenarios.empty() || std::ranges::count(scenarios, name) > 0;
  };
  bool all_succeeded = true;
  for (const std::string& name : raw_scenarios())
    if (chosen(name))
      all_succeeded &= report(name, [&] { return run_raw_scenario(name, options); });
  if (std::ranges::none_of(cluster_scenarios(), chosen)) return all_succeeded ? 0 : 1;
  return serve(cluster_arguments(program, options, out), [&](actors::Cluster& cluster,
                                                             const actors::AppRun& app_run) {
    for (const std::string& name : cluster_scenarios())
      if (chosen(name) && !app_run.stop.stop_requested())
        all_succeeded &= report(name, [&] { return run_cluster_scenario(name, cluster, options); });
    return all_succeeded ? 0 : 1;
  });
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  // Processes of the cluster run the same executable, with arguments of their own.
  if (argc > 1 && std::string_view(argv[1]).starts_with("--weft-role"))
    return weft::serve({argv, argv + argc}, {});
  std::vector<std::string> names = weft::raw_scenarios();
  for (const std::string& name : weft::cluster_scenarios()) names.push_back(name);
  weft::ScenarioOptions options;
  std::vector<std::string> scenarios;
  std::string out = "runs/actors";
  CLI::App app{"Times actors on a cluster of this machine"};
  app.add_option("scenarios", scenarios, "all if none is named")->check(CLI::IsMember(names));
  app.add_option("--hosts", options.hosts, "agents")->check(CLI::Range(1, 64));
  app.add_option("--actors", options.actors, "actors of start, gather and send")
      ->check(CLI::Range(1, 10000));
  app.add_option("--shared-actors", options.shared_actors, "actors of start_shared")
      ->check(CLI::Range(1, 100000));
  app.add_option("--calls", options.calls, "calls of call")->check(CLI::Range(10, 10000000));
  app.add_option("--pipelined", options.pipelined, "calls of pipelined and pairs")
      ->check(CLI::Range(100, 100000000));
  app.add_option("--rounds", options.rounds, "calls of gather")->check(CLI::Range(1, 1000000));
  app.add_option("--reduced", options.reduced, "actors of reduce")->check(CLI::Range(1, 10000));
  app.add_option("--large-rounds", options.large_rounds, "calls of send and reduce")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--repeats", options.repeats, "measurements of start, start_shared and restart")
      ->check(CLI::Range(1, 100));
  app.add_option("--out", out, "folder of the cluster's files");
  CLI11_PARSE(app, argc, argv);
  return weft::run(argv[0], scenarios, options, out);
}

// weft bench pipeline: measures training steps under schedules, resharding strategies and ways of
// overlap on hosts with shaped links. Compares them with a step whose transfers are all hidden and
// with a lower bound for any runtime.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <stop_token>

#include "apps/bench_pipeline/bench_case.h"
#include "apps/bench_pipeline/bench_plot.h"
#include "apps/bench_pipeline/bench_result.h"
#include "apps/bench_pipeline/pipeline_batches.h"
#include "apps/bench_pipeline/pipeline_bench.h"
#include "apps/bench_pipeline/vocabulary_plot.h"
#include "apps/cli/end_parsing.h"
#include "apps/test_cluster/bench_program.h"
#include "apps/test_cluster/test_cluster.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/non_blocking_output.h"
#include "core/base/terminal.h"
#include "mesh/executor/device_actor.h"
#include "mesh/schedule/named_schedules.h"

namespace weft::apps {
namespace {

/// Rejects unknown schedules and invalid ratios before anything starts.
void check(const BenchOptions& options) {
  const std::vector<std::string> fitting = mesh::one_stage_schedule_names();
  for (const std::string& schedule : options.schedules) {
    if (schedule == "auto" || std::find(fitting.begin(), fitting.end(), schedule) != fitting.end())
      continue;
    mesh::find_named_schedule(schedule);
    throw_error(ErrorCode::kInvalidArgument,
                "--schedules {}: this schedule needs several stages per mesh, but the benchmark's "
                "models have one; choose from {}, auto",
                schedule, fmt::join(fitting, ", "));
  }
  for (const double ratio : options.ratios)
    if (!(ratio > 0))
      throw_error(ErrorCode::kInvalidArgument,
                  "--ratios {}: expected numbers above 0, such as 0.25,0.5,1", ratio);
}

/// Drops cases that cannot be simulated. Throws if such a case was requested by name.
void keep_simulated(std::vector<PipelineCase>& cases, const BenchOptions& options) {
  std::erase_if(cases, [&](const PipelineCase& one) {
    // The simulator does not know the overhead of actions.
    const bool dispatch = one.model.pass_seconds == 0;
    if (make_pipeline_model(one.model).emulated && !dispatch) return false;
    if (options.cases.empty()) return true;
    throw_error(ErrorCode::kInvalidArgument,
                "--simulate: {} {}, and how long that takes must be measured; name cases of "
                "emulated devices (see --list)",
                one.name, dispatch ? "does nothing but start actions" : "computes");
  });
}

/// Writes the plots of the results; returns their file names.
std::vector<std::string> draw(const std::vector<WorkloadResult>& results,
                              const std::vector<PipelineCase>& cases,
                              const std::filesystem::path& out) {
  std::vector<WorkloadResult> speeds;
  std::map<std::string, std::vector<WorkloadResult>> sweeps, vocabularies;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].vocabulary > 0 && results[i].emulated)
      vocabularies[cases[i].group].push_back(results[i]);
    else if (cases[i].group.starts_with("sweep")) sweeps[cases[i].group].push_back(results[i]);
    else if (results[i].signal() != nullptr) speeds.push_back(results[i]);
  }
  const bool measured = std::ranges::any_of(
      results, [](const WorkloadResult& one) { return one.arms.front().measured(); });
  const std::string how = measured ? "" : "; simulated only";
  std::vector<std::string> files;
  const auto write = [&](const Svg& svg, const std::string& name) {
    svg.write(out / name);
    files.push_back(name);
  };
  if (!speeds.empty())
    write(draw_speeds(speeds, "Training steps: speed against send_recv, blocking, 1f1b" + how),
          "speeds.svg");
  for (const auto& [group, list] : sweeps) {
    write(draw_sweep(list, fmt::format("Transfers hidden: {} emulated stages, {} microbatches{}",
                                       list.front().stages, list.front().microbatches, how)),
          group + ".svg");
  }
  for (const auto& [group, list] : vocabularies)
    write(draw_vocabularies(list, fmt::format("A vocabulary shared by {} emulated stages, {} "
                                              "microbatches",
                                              list.front().stages, list.front().microbatches)),
          group + ".svg");
  return files;
}

/// Returns the options of a cluster that is large enough for all cases.
TestCluster::Options cluster_for(const std::vector<PipelineCase>& cases,
                                 const BenchOptions& options, std::FILE* terminal) {
  TestCluster::Options cluster;
  cluster.name = "weft bench pipeline";
  cluster.executable = std::filesystem::read_symlink("/proc/self/exe");
  cluster.directory = options.out / "cluster";
  for (const PipelineCase& bench : cases) {
    const PipelineModel model = make_pipeline_model(bench.model);
    cluster.hosts = std::max(cluster.hosts, model.hosts);
    cluster.devices_per_host =
        std::max<std::uint32_t>(cluster.devices_per_host, model.devices_per_host);
  }
  cluster.hosts_tool = find_hosts_tool(
      options.loopback, "the links are not limited, so transfers cost next to nothing", terminal);
  return cluster;
}

int run_bench(const BenchOptions& options, const std::stop_token& stop) {
  // The result of --json - goes to stdout, where writes must block until it is read.
  const NonBlockingOutput output(options.json == "-" ? NonBlockingOutput::Streams::kErrorOnly
                                                     : NonBlockingOutput::Streams::kBoth);
  check(options);
  std::vector<PipelineCase> cases = pipeline_cases(options);
  if (options.simulate) keep_simulated(cases, options);
  // The JSON document alone goes to stdout with --json -.
  std::FILE* terminal = options.json == "-" ? stderr : stdout;
  std::vector<WorkloadResult> results;
  {
    std::optional<TestCluster> processes;
    if (!options.simulate) processes.emplace(cluster_for(cases, options, terminal));
    std::filesystem::create_directories(options.out);
    PipelineBench bench(
        processes ? &*processes : nullptr,
        {options.steps, options.peer, options.out, stop, [](const std::string& line) {
           say(stderr, "{}\n", line);
           std::fflush(stderr);
         }});
    for (const PipelineCase& one : cases) {
      results.push_back(bench.run(one));
      say(terminal, "{}", to_table(results.back()));
      std::fflush(terminal);
      // Saves the results so far, in case a later case fails.
      write_in_place(options.out / "results.json", to_json(results));
    }
  }
  const std::vector<std::string> pictures = draw(results, cases, options.out);
  if (options.json == "-") say(stdout, "{}", to_json(results));
  else if (!options.json.empty()) write_in_place(options.json, to_json(results));
  say(terminal, "\n{}: results.json has all of it{}{}\n", options.out.string(),
      pictures.empty() ? "" : "; pictures: ", fmt::join(pictures, ", "));
  return 0;
}

int parse_and_run(int argc, char** argv) {
  BenchOptions options;
  CLI::App app(
      "Training steps on hosts with shaped links: schedules, resharding and overlap, beside the "
      "reference and the bound.",
      "weft bench pipeline");
  app.footer("Example:\n  weft bench pipeline --quick");
  app.get_formatter()->column_width(34);
  app.add_option("--cases", options.cases, "Cases or groups of them; see --list")
      ->delimiter(',')
      ->type_name("NAME,...");
  app.add_option("--schedules", options.schedules, "Schedules to compare")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("NAME,...");
  app.add_option("--ratios", options.ratios,
                 "Of real compute: time of a transfer over F+B of the slower stage")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("R,...");
  app.add_flag("--all-arms", options.all_arms,
               "For the paper's models every combination of resharding, blocking or overlapped, "
               "and schedule; else bundles");
  app.add_option("--microbatches", options.microbatches, "Instead of each model's own number")
      ->check(CLI::Range(1, 4096));
  app.add_option("--steps", options.steps, "Measured steps of each arm")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--quick", options.quick, "Fewer microbatches and steps");
  app.add_option(
         "--peer", options.peer,
         "Run COMMAND --link RATE --json FILE after each case of gpt-real and show it beside")
      ->type_name("COMMAND");
  app.add_flag("--simulate", options.simulate,
               "Compile the programs and simulate them; start nothing. For emulated devices")
      ->excludes(app.get_option("--peer"));
  app.add_flag("--loopback", options.loopback, "Use loopback without limited links");
  app.add_option("--json", options.json, "Write the results there; - for stdout")
      ->type_name("FILE");
  app.add_option("--out", options.out, "Folder for results, pictures and logs")
      ->capture_default_str()
      ->type_name("DIR");
  bool list_cases = false;
  app.add_flag("--list", list_cases, "Show the cases, and run nothing");
  if (const std::optional<int> status = parse_words(app, argc, argv)) return *status;
  if (options.quick && app.count("--steps") == 0) options.steps = 1;
  if (list_cases) {
    std::string text;
    for (const PipelineCase& bench : all_pipeline_cases(options))
      text += fmt::format("{:<24} {} arms; {}{}\n", bench.name, bench.arms.size(), bench.text,
                          bench.on_request_only ? " (only when asked for)" : "");
    say(stdout, "{}", wrapped_for_terminal(STDOUT_FILENO, text, 25));
    return 0;
  }
  return run_until_signal([&](const std::stop_token& stop) { return run_bench(options, stop); });
}

}  // namespace
}  // namespace weft::apps

int main(int argc, char** argv) {
  return weft::apps::run_bench_program(
      argc, argv,
      {.name = "weft bench pipeline",
       .register_actors =
           [](weft::actors::AppMain& app) {
             app.provide<weft::mesh::DeviceActor>(
                 weft::mesh::make_device_actors([](std::span<const std::byte> prepared) {
                   return std::make_unique<weft::apps::PipelineBatches>(
                       weft::decode<weft::apps::PipelineBatchesConfig>(prepared));
                 }));
           },
       .measure = weft::apps::parse_and_run});
}

#include "apps/bench/pipeline/pipeline_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/bench/pipeline/bench_case.h"
#include "apps/bench/pipeline/bench_plot.h"
#include "apps/bench/pipeline/bench_result.h"
#include "apps/bench/pipeline/pipeline_batches.h"
#include "apps/bench/pipeline/pipeline_bench.h"
#include "apps/bench/pipeline/vocabulary_plot.h"
#include "apps/bench/test_cluster.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "mesh/schedule/named_schedules.h"

namespace weft::apps {
namespace {

/// Rejects unknown schedules and invalid ratios before anything starts.
void check_pipeline_options(const PipelineBenchOptions& options) {
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
void keep_simulated(std::vector<PipelineCase>& cases, const PipelineBenchOptions& options) {
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
std::vector<std::string> draw_pictures(const std::vector<WorkloadResult>& results,
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

/// Lists the cases for --list.
std::string list_pipeline_cases(const std::vector<PipelineCase>& cases) {
  std::string text;
  for (const PipelineCase& bench : cases)
    text += fmt::format("{:<24} {} arms; {}{}\n", bench.name, bench.arms.size(), bench.text,
                        bench.on_request_only ? " (only when asked for)" : "");
  return text;
}

/// `weft bench pipeline`.
class PipelineProgram final : public BenchProgram {
 public:
  Description description() const override {
    return {.name = "pipeline",
            .purpose =
                "Training steps on hosts with shaped links: schedules, resharding and overlap, "
                "beside the reference and the bound.",
            .example = "weft bench pipeline --quick",
            .folder = "runs/bench-pipeline",
            .folder_holds = "results, pictures and logs"};
  }
  void register_actors(actors::AppMain& app) const override { provide_pipeline_devices(app); }

  void add_options(CLI::App& app) override {
    app.add_option("--cases", options_.cases, "Cases or groups of them; see --list")
        ->delimiter(',')
        ->type_name("NAME,...");
    app.add_option("--schedules", options_.schedules, "Schedules to compare")
        ->delimiter(',')
        ->capture_default_str()
        ->type_name("NAME,...");
    app.add_option("--ratios", options_.ratios,
                   "Of real compute: time of a transfer over F+B of the slower stage")
        ->delimiter(',')
        ->capture_default_str()
        ->type_name("R,...");
    app.add_flag("--all-arms", options_.all_arms,
                 "For the paper's models every combination of resharding, blocking or overlapped, "
                 "and schedule; else bundles");
    app.add_option("--microbatches", options_.microbatches, "Instead of each model's own number")
        ->check(CLI::Range(1, 4096));
    app.add_option("--steps", options_.steps, "Measured steps of each arm")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    app.add_flag("--quick", options_.quick, "Fewer microbatches and steps");
    app.add_option(
           "--peer", options_.peer,
           "Run COMMAND --link RATE --json FILE after each case of gpt-real and show it beside")
        ->type_name("COMMAND");
    app.add_flag("--simulate", options_.simulate,
                 "Compile the programs and simulate them; start nothing. For emulated devices")
        ->excludes(app.get_option("--peer"));
    app.add_flag("--loopback", options_.loopback, "Use loopback without limited links");
    app.add_flag("--list", list_cases_, "Show the cases, and run nothing");
  }

  std::optional<int> complete_options(const CLI::App& app) override {
    if (options_.quick && app.count("--steps") == 0) options_.steps = 1;
    if (list_cases_) {
      say(stdout, "{}",
          wrapped_for_terminal(STDOUT_FILENO, list_pipeline_cases(all_pipeline_cases(options_)),
                               25));
      return 0;
    }
    check_pipeline_options(options_);
    cases_ = pipeline_cases(options_);
    if (options_.simulate) keep_simulated(cases_, options_);
    return std::nullopt;
  }

  int measure(const BenchOutput& output) override {
    return run_until_signal([&](const std::stop_token& stop) {
      const std::vector<WorkloadResult> results = run_cases(output, stop);
      const std::vector<std::string> pictures = draw_pictures(results, cases_, output.folder());
      output.publish(to_json(results));
      output.print(fmt::format("\n{}: results.json has all of it{}{}\n", output.folder().string(),
                               pictures.empty() ? "" : "; pictures: ", fmt::join(pictures, ", ")));
      return 0;
    });
  }

 private:
  /// Returns the options of a cluster that is large enough for all cases.
  TestCluster::Options cluster_options(const BenchOutput& output) const {
    TestCluster::Options cluster =
        bench_cluster_options(description(), output, 0, options_.loopback,
                              "the links are not limited, so transfers cost next to nothing");
    for (const PipelineCase& bench : cases_) {
      const PipelineModel model = make_pipeline_model(bench.model);
      cluster.hosts = std::max(cluster.hosts, model.hosts);
      cluster.devices_per_host =
          std::max<std::uint32_t>(cluster.devices_per_host, model.devices_per_host);
    }
    return cluster;
  }

  std::vector<WorkloadResult> run_cases(const BenchOutput& output, const std::stop_token& stop) {
    std::optional<TestCluster> processes;
    if (!options_.simulate) processes.emplace(cluster_options(output));
    PipelineBench bench(
        processes ? &*processes : nullptr,
        {options_.steps, options_.peer, output.folder(), stop, BenchOutput::report_progress});
    std::vector<WorkloadResult> results;
    for (const PipelineCase& one : cases_) {
      results.push_back(bench.run(one));
      output.print(to_table(results.back()));
      output.save(to_json(results));
    }
    return results;
  }

  PipelineBenchOptions options_;
  bool list_cases_ = false;
  std::vector<PipelineCase> cases_;
};

}  // namespace

std::unique_ptr<BenchProgram> make_pipeline_program() {
  return std::make_unique<PipelineProgram>();
}

}  // namespace weft::apps

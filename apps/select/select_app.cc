#include "apps/select/select_app.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/cluster/run_events.h"
#include "actors/launch/exit_request.h"
#include "actors/recovery/run_recovery.h"
#include "apps/run_files/progress_display.h"
#include "apps/select/cluster_workers.h"
#include "apps/select/ground_set_builder.h"
#include "apps/select/memory_plan.h"
#include "apps/select/progress_file.h"
#include "apps/select/select_config.h"
#include "apps/select/select_plan.h"
#include "apps/select/select_results.h"
#include "apps/select/select_summary.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/terminal.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

constexpr int kDone = 0;
/// Wait for a death report after an error, as file errors have the same codes as a worker's death.
constexpr Nanoseconds kRootCauseTimeout = std::chrono::seconds(3);

SelectConfig read(const actors::AppRun& run) {
  if (run.config.empty())
    throw_error(ErrorCode::kInvalidConfig,
                "select needs a run file: start it with `weft run select.yaml`");
  return read_select(run.document());
}

/// Returns the prefix of errors: the run file, or "" if `weft select INPUT` made the configuration.
std::string file_of(const actors::AppRun& run) {
  return run.config_folder.empty() ? run.config.string() + ": " : "";
}

/// Returns what is known of the points before the run starts. See known_points().
std::optional<KnownPoints> try_known_points(const actors::AppRun& run, const SelectConfig& config) {
  try {
    return known_points(config);
  } catch (const Error& error) {
    if (!config.input) throw;
    throw Error(ErrorCode::kInvalidConfig, file_of(run) + "input: " + error.message());
  }
}

SelectionPlan checked_plan(const actors::AppRun& run, const SelectConfig& config,
                           const KnownPoints& known) {
  try {
    return plan_of(config, known);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    throw Error(ErrorCode::kInvalidConfig, file_of(run) + error.message());
  }
}

/// Prints the input's kind and the plan's options, for an input whose rows have not been counted.
void show_input(const actors::AppRun& run, const SelectConfig& config) {
  const std::string_view kind = to_string(kind_of_input(config.input->path));
  if (run.json) {
    const nlohmann::ordered_json json = {{"file", run.config.string()},
                                         {"valid", true},
                                         {"problems", nlohmann::ordered_json::array()},
                                         {"name", config.name},
                                         {"input", config.input->path},
                                         {"kind", kind}};
    say(stdout, "{}\n", json.dump(2));
    return;
  }
  const Screen screen = Screen::standard_output();
  print_row(screen, "input",
            fmt::format("{}, {}; the number of rows is not known before it is read",
                        config.input->path, kind));
  print_row(screen, "objective", objective_text(config.plan));
  print_row(screen, "bounding", bounding_text(config.plan.settings));
}

/// Returns the plan of a run, whose state is in a folder of its own in the scratch folder, named by
/// the path of its results.
SelectionPlan plan_of_run(const SelectConfig& config, const KnownPoints& known,
                          const actors::AppRun& run) {
  SelectionPlan plan = plan_of(config, known);
  const std::string where = std::filesystem::absolute(run.out).string();
  plan.settings.scratch =
      (config.scratch / ("run-" + sha256(std::as_bytes(std::span(where))).substr(0, 12))).string();
  return plan;
}

/// Driver of one run: makes the points, selects on workers, and writes the results. Use once.
class SelectDriver final {
 public:
  explicit SelectDriver(const actors::AppRun& run)
      : run_(run),
        config_(read(run)),
        note_([this](const std::string& line) { note(line); }),
        events_(run.out),
        began_(clock_.now()),
        progress_(run.out),
        ground_set_(config_, run, note_) {}

  void drive(actors::Cluster& cluster) {
    const std::vector<std::string> hosts = config_.recovery.without_spares(config_.cluster.hosts);
    // Shared by both meshes, so that the second one avoids hosts lost under the first one.
    actors::RunRecovery recovery(
        cluster, {.config = config_.recovery,
                  .hosts = hosts,
                  .restart_budget_path = run_.restarts,
                  .cause_timeout = kRootCauseTimeout,
                  .on_wait = [&](const std::string& why) { note("waiting for devices: " + why); },
                  .stop = run_.stop});
    ClusterWorkersOptions options{.mesh = "graph",
                                  .hosts = hosts,
                                  .workers = config_.num_workers(),
                                  .adopt_existing = run_.restart > 0,
                                  .recovered = [&](const std::string& text) { recovered(text); }};
    ground_set_.build(cluster, recovery, options, progress_);
    options.mesh = "select";
    ClusterWorkers<SelectionWorker> workers(cluster, recovery, options);
    finished_.known = ground_set_.require(workers);
    finished_.plan = plan_of_run(config_, finished_.known, run_);
    finished_.forecast_bytes = forecast_memory(finished_.plan, finished_.known.points,
                                               finished_.known.edges, finished_.known.shards)
                                   .peak();
    show_plan();
    const std::string digest = digest_of(finished_.plan, finished_.known);
    SelectionRun selection(
        workers, finished_.plan,
        {.on_progress = note_, .save_progress = [&](const SelectionProgress& now) {
           finished_.progress = now;
           progress_.write(now, digest);
         }});
    select(selection, progress_.selection(digest));
    const auto sheet = write_files(selection);
    progress_.remove();
    (void)workers.all().call_collect<&SelectionWorker::clean>().get();
    finish(sheet);
  }

 private:
  void note(const std::string& line) const {
    const std::string shown = fmt::format("  {}\n", line);
    say(screen_.out, "{}", screen_.terminal ? wrap_lines(shown, screen_.columns, 2) : shown);
    std::fflush(screen_.out);
  }

  void recovered(const std::string& text) {
    ++finished_.recoveries;
    note(text);
    events_.add({"recovered", text});
  }

  /// Prints the plan before it runs. Warns if its forecast exceeds the memory limit.
  void show_plan() const {
    print_row(screen_, "points", points_text(config_, finished_.known));
    print_row(screen_, "to choose",
              with_thousands(static_cast<double>(finished_.plan.settings.count)));
    print_row(screen_, "objective", objective_text(finished_.plan));
    print_row(screen_, "rounds", rounds_text(finished_.plan));
    const std::uint64_t limit = config_.cluster.memory;
    if (limit > 0 && finished_.forecast_bytes > limit)
      note(
          fmt::format("warning: a process will need {} by the forecast, but its limit is {} "
                      "(selection.forecast: warn)",
                      format_bytes(finished_.forecast_bytes), format_bytes(limit)));
  }

  /// Selects, from `before` on if an earlier driver has saved its progress.
  void select(SelectionRun& selection, const std::optional<SelectionProgress>& before) {
    finished_.progress = before.value_or(SelectionProgress());
    const TimePoint began = clock_.now();
    if (before)
      note(fmt::format("resuming after {} step{} of bounding and {} round{}",
                       before->decided.size(), before->decided.size() == 1 ? "" : "s",
                       before->round, before->round == 1 ? "" : "s"));
    finished_.summary = selection.run(before.value_or(SelectionProgress()));
    finished_.seconds = in_seconds(clock_.now() - began);
  }

  /// Writes the chosen points and the pictures. Returns the file of the contact sheet, if any.
  std::optional<std::filesystem::path> write_files(SelectionRun& selection) const {
    auto sheet =
        write_results(selection, finished_.known.points, config_.input ? &*config_.input : nullptr,
                      ground_set_.prepared(), finished_.plan.settings.seed, run_.out);
    draw_pictures(selection, finished_, config_, ground_set_.mapped(), run_.out);
    return sheet;
  }

  void finish(const std::optional<std::filesystem::path>& sheet) {
    finished_.seconds_with_start = in_seconds(clock_.now() - began_);
    write_durably(run_.out / "summary.json",
                  summary_json(config_, finished_, ground_set_).dump(2) + "\n");
    for (const std::string& line : closing_lines(finished_, ground_set_, sheet, run_.out))
      note(line);
  }

  const actors::AppRun& run_;
  const SelectConfig config_;
  const std::function<void(const std::string&)> note_;  ///< Calls note().
  const Screen screen_ = Screen::standard_output();
  const SteadyClock clock_;
  const actors::RunEvents events_;
  const TimePoint began_;
  ProgressFile progress_;
  GroundSetBuilder ground_set_;
  FinishedSelection finished_;
};

}  // namespace

int check_select(const actors::AppRun& run) {
  const SelectConfig config = read(run);
  const std::optional<KnownPoints> there = try_known_points(run, config);
  const SelectionPlan plan = there ? checked_plan(run, config, *there) : SelectionPlan();
  if (run.quiet) return kDone;
  if (!there) {
    show_input(run, config);
    return kDone;
  }
  const KnownPoints& known = *there;
  if (run.json) {
    nlohmann::ordered_json json = plan_json(config, known, plan);
    json["file"] = run.config.string();
    json["valid"] = true;
    json["problems"] = nlohmann::ordered_json::array();
    say(stdout, "{}\n", json.dump(2));
    return kDone;
  }
  const Screen screen = Screen::standard_output();
  print_row(screen, "points", points_text(config, known));
  print_row(screen, "to choose", with_thousands(static_cast<double>(plan.settings.count)));
  print_row(screen, "objective", objective_text(plan));
  print_row(screen, "bounding", bounding_text(plan.settings));
  print_row(screen, "rounds", rounds_text(plan));
  const SelectionMemory memory = forecast_memory(plan, known.points, known.edges, known.shards);
  print_row(screen, "memory", format_bytes(memory.peak()) + " a process at most");
  return kDone;
}

int plan_select(const actors::AppRun& run) {
  const SelectConfig config = read(run);
  const std::optional<KnownPoints> there = try_known_points(run, config);
  if (!there) {
    show_input(run, config);
    return kDone;
  }
  const SelectionPlan plan = checked_plan(run, config, *there);
  if (run.json) say(stdout, "{}\n", plan_json(config, *there, plan).dump(2));
  else say(stdout, "{}", plan_text(config, *there, plan));
  return kDone;
}

int drive_select(actors::Cluster& cluster, const actors::AppRun& run) {
  SelectDriver driver(run);
  if (run.on_phase) run.on_phase("selecting", actors::OnInterrupt::kEndsAtOnce);
  driver.drive(cluster);
  return kDone;
}

}  // namespace weft::apps

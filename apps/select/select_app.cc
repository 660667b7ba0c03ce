#include "apps/select/select_app.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "actors/cluster/run_events.h"
#include "actors/launch/exit_request.h"
#include "actors/recovery/run_recovery.h"
#include "apps/run_files/progress_display.h"
#include "apps/run_files/run_directory.h"
#include "apps/select/cluster_workers.h"
#include "apps/select/memory_plan.h"
#include "apps/select/progress_file.h"
#include "apps/select/progress_plot.h"
#include "apps/select/select_config.h"
#include "apps/select/select_plan.h"
#include "apps/select/select_results.h"
#include "apps/select/selection_map.h"
#include "apps/select_input/prepare_input.h"
#include "apps/selection/graph_run.h"
#include "apps/selection/npy_file.h"
#include "apps/selection/point_store.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/file_lock.h"
#include "core/base/sha256.h"
#include "core/base/terminal.h"
#include "core/base/units.h"
#include "core/cpu/cpu_device.h"

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

/// Converts a score, a sum of weighted 16-bit fractions, to the scale of weights that add up to 1.
double as_units(std::int64_t score, const SelectionPlan& plan) {
  return static_cast<double>(score) / 65535.0 /
         static_cast<double>(plan.settings.utility + plan.settings.similarity);
}

/// Prepares vectors and utilities of the input on this process's CPU.
PreparedInput prepare(const SelectConfig& config, const actors::AppRun& run,
                      const std::function<void(const std::string&)>& note) {
  const SteadyClock clock;
  const TimePoint began = clock.now();
  CpuDevice device;
  PreparedInput prepared = prepare_input(*config.input, config.prepared(), device, {}, run.stop);
  note(fmt::format("input: {} rows{}{}, {}{}", with_thousands(static_cast<double>(prepared.rows)),
                   prepared.kind == InputKind::kVectors
                       ? ""
                       : " to train on (others are held out to validate and test)",
                   prepared.width == 0 ? "" : fmt::format(" of {} numbers", prepared.width),
                   prepared.provenance,
                   prepared.was_reused ? ", there already"
                                       : ", " + format_seconds(in_seconds(clock.now() - began))));
  return prepared;
}

/// Blocks until no other run on this machine is building the same points. That run's points are
/// then found and used. Null if the points need no lock.
std::optional<FileLock> lock_points(const SelectConfig& config, const actors::AppRun& run,
                                    const std::function<void(const std::string&)>& note) {
  if (config.points) return std::nullopt;
  std::error_code failed;
  std::filesystem::create_directories(config.scratch, failed);
  if (failed) return std::nullopt;  // the workers' hosts may have the folder
  const std::filesystem::path file =
      (config.input ? config.prepared() : config.store()).string() + ".lock";
  try {
    if (auto lock = FileLock::try_acquire(file)) return lock;
  } catch (const Error& error) {
    throw_error(error.code(), "{}; set scratch to a folder that this user can write to",
                error.message());
  }
  note(fmt::format("waiting for another run that is making the same points in {}",
                   config.store().string()));
  auto lock = FileLock::acquire(file, [&] { return run.stop.stop_requested(); });
  if (!lock)
    throw_error(ErrorCode::kCancelled, "interrupted while it waited for {}", file.string());
  return lock;
}

/// Builds the store of the input's points. Returns its facts for the summary.
nlohmann::ordered_json make_graph(actors::Cluster& cluster, actors::RunRecovery& recovery,
                                  const ClusterWorkersOptions& options, const SelectConfig& config,
                                  const PreparedInput& prepared, ProgressFile& progress,
                                  const std::function<void(const std::string&)>& note) {
  const SteadyClock clock;
  const TimePoint began = clock.now();
  GraphPlan plan;
  GraphSettings& settings = plan.settings;
  if (config.neighbours) {
    settings.input.neighbours = config.neighbours->string();
    settings.input.similarities = config.similarities->string();
  } else if (prepared.has_neighbours) {
    settings.input.neighbours = prepared.neighbours().string();
    settings.input.similarities = prepared.similarities().string();
  } else {
    settings.input.vectors = prepared.vectors().string();
  }
  if (!prepared.has_uniform_utility) settings.input.utilities = prepared.utility().string();
  settings.store = config.store().string();
  settings.scratch = (config.prepared() / "graph").string();
  settings.count = config.num_neighbours;
  settings.floor = fraction_of(config.similarity_floor);
  settings.seed = config.plan.settings.seed;
  settings.shards =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(ShardLayout::kShards, prepared.rows));
  const GraphMemory memory = graph_memory(config.cluster.memory);
  settings.memory = memory.cells;
  settings.exchange_budget = memory.exchange;
  plan.recall = config.recall;
  ClusterWorkers<GraphWorker> workers(cluster, recovery, options);
  const GraphSummary summary =
      GraphRun(workers, plan,
               {.on_progress = note,
                .save_progress = [&](const GraphProgress& now) { progress.write(now); }})
          .run(progress.graph());
  // The run needs no worker for this any more, so a death does not matter.
  (void)workers.all().call_collect<&GraphWorker::clean>().get();
  // An empty search name means that the neighbours were given.
  const std::string how = summary.search.empty()
                              ? "as they were given"
                              : fmt::format("{}{}, recall {:.4f}", summary.search,
                                            summary.exact ? ", all compared" : "", summary.recall);
  note(fmt::format("graph: {} directed edges, {}{}",
                   with_thousands(static_cast<double>(summary.directed_edges)), how,
                   summary.was_reused ? ", there already"
                                      : ", " + format_seconds(in_seconds(clock.now() - began))));
  return {{"directed_edges", summary.directed_edges},
          {"exact", summary.exact},
          {"recall", summary.recall},
          {"cells", summary.cells},
          {"probes", summary.probes},
          {"search", summary.search},
          {"search_seconds", summary.search_seconds},
          {"seconds", in_seconds(clock.now() - began)},
          {"was_there", summary.was_reused},
          {"digest", summary.digest}};
}

void generate(SelectionWorkers& workers, const SelectConfig& config,
              const std::function<void(const std::string&)>& note) {
  const SteadyClock clock;
  const TimePoint began = clock.now();
  const std::string folder = config.store().string();
  workers.run_with_recovery(
      [&](const auto& all) {
        std::uint64_t edges = 0;
        for (const std::uint64_t of_worker :
             all.template call<&SelectionWorker::generate>(folder, config.generated).get())
          edges += of_worker;
        all.template call<&SelectionWorker::write_index>(folder, config.generated, edges).get();
        return edges;
      },
      [] {});
  note(fmt::format("generated {} points, {}",
                   with_thousands(static_cast<double>(config.generated.points)),
                   format_seconds(in_seconds(clock.now() - began))));
}

/// Returns the ground set after checking that each worker's host has its shards. Generates the
/// points if the configuration asks for it.
KnownPoints require_points(SelectionWorkers& workers, const SelectConfig& config,
                           const std::function<void(const std::string&)>& note) {
  const std::string folder = config.store().string();
  for (bool may_generate = !config.points && !config.input;; may_generate = false) {
    const auto found = workers.run_with_recovery(
        [&](const auto& all) {
          return all.template call<&SelectionWorker::inspect_store>(folder).get();
        },
        [] {});
    const auto lacks = std::ranges::find(found, std::uint64_t{0}, &GroundSet::points);
    if (lacks == found.end())
      return {found.front().points, found.front().directed_edges, found.front().shards, true};
    if (!may_generate)
      throw_error(ErrorCode::kNotFound,
                  "the points in {} do not exist on the host of worker {}, as each host stores "
                  "those of its own workers. Use the hosts of the run that made them, or remove "
                  "the folder to make them again",
                  folder, lacks - found.begin());
    generate(workers, config, note);
  }
}

/// Writes progress.svg, and map.svg if the graph was built from vectors (`mapped` is not null).
void draw_pictures(SelectionRun& selection, const SelectionSummary& summary,
                   const SelectionProgress& progress, const SelectConfig& config,
                   const PreparedInput* mapped, const std::filesystem::path& folder) {
  const std::string title =
      fmt::format("{}: {} of {} points chosen", config.name,
                  with_thousands(static_cast<double>(summary.chosen)),
                  with_thousands(static_cast<double>(summary.ground_set.points)));
  const auto stages = stages_of(summary.ground_set.points, summary.chosen, progress);
  double seconds = 0;
  for (const SelectionStage& stage : stages) seconds += stage.seconds;
  // A single stage decides all points; its picture would be one bar.
  if (stages.size() > 1)
    draw_progress(stages, fmt::format("{}, in {}", title, format_seconds(seconds)))
        .write(folder / "progress.svg");
  if (mapped == nullptr) return;
  draw_map(map_selection(selection, NpyFile(mapped->vectors()), config.plan.settings.seed), title)
      .write(folder / "map.svg");
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
  const SteadyClock clock;
  const SelectConfig config = read(run);
  const Screen screen = Screen::standard_output();
  const auto note = [&](const std::string& line) {
    const std::string shown = fmt::format("  {}\n", line);
    say(screen.out, "{}", screen.terminal ? wrap_lines(shown, screen.columns, 2) : shown);
    std::fflush(screen.out);
  };
  if (run.on_phase) run.on_phase("selecting", actors::OnInterrupt::kEndsAtOnce);
  const std::vector<std::string> hosts = config.recovery.without_spares(config.cluster.hosts);
  const actors::RunEvents events(run.out);
  std::uint32_t recoveries = 0;
  const TimePoint began = clock.now();
  // Shared by both meshes, so that the second one avoids hosts lost under the first one.
  actors::RunRecovery recovery(
      cluster, {.config = config.recovery,
                .hosts = hosts,
                .restart_budget_path = run.restarts,
                .cause_timeout = kRootCauseTimeout,
                .on_wait = [&](const std::string& why) { note("waiting for devices: " + why); },
                .stop = run.stop});
  ClusterWorkersOptions options{.mesh = "graph",
                                .hosts = hosts,
                                .workers = config.num_workers(),
                                .adopt_existing = run.restart > 0,
                                .recovered = [&](const std::string& text) {
                                  ++recoveries;
                                  note(text);
                                  events.add({"recovered", text});
                                }};
  ProgressFile progress(run.out);
  nlohmann::ordered_json made = nlohmann::ordered_json::object();
  std::optional<PreparedInput> prepared;
  std::optional<FileLock> making = lock_points(config, run, note);
  if (config.input) {
    prepared = prepare(config, run, note);
    // Reports an impossible limit or budget before the graph is built.
    if (!std::filesystem::exists(config.store() / "points.json"))
      (void)plan_of(config, forecast_points(config, {prepared->rows, prepared->width}));
    made["input"] = {{"rows", prepared->rows},
                     {"width", prepared->width},
                     {"vectors", prepared->provenance},
                     {"data_digest", prepared->data_digest},
                     {"seconds", prepared->seconds}};
    made["graph"] = make_graph(cluster, recovery, options, config, *prepared, progress, note);
  }
  options.mesh = "select";
  ClusterWorkers<SelectionWorker> workers(cluster, recovery, options);
  const KnownPoints known = require_points(workers, config, note);
  making.reset();
  SelectionPlan plan = plan_of(config, known);
  // Folder of this run in the scratch folder, named by the path of its results.
  const std::string where = std::filesystem::absolute(run.out).string();
  plan.settings.scratch =
      (config.scratch / ("run-" + sha256(std::as_bytes(std::span(where))).substr(0, 12))).string();
  print_row(screen, "points", points_text(config, known));
  print_row(screen, "to choose", with_thousands(static_cast<double>(plan.settings.count)));
  print_row(screen, "objective", objective_text(plan));
  print_row(screen, "rounds", rounds_text(plan));
  const SelectionMemory memory = forecast_memory(plan, known.points, known.edges, known.shards);
  if (config.cluster.memory > 0 && memory.peak() > config.cluster.memory)
    note(
        fmt::format("warning: a process will need {} by the forecast, but its limit is {} "
                    "(selection.forecast: warn)",
                    format_bytes(memory.peak()), format_bytes(config.cluster.memory)));

  const std::string digest = digest_of(plan, known);
  const std::optional<SelectionProgress> before = progress.selection(digest);
  SelectionProgress reached = before.value_or(SelectionProgress());
  SelectionRun selection(workers, plan,
                         {.on_progress = note, .save_progress = [&](const SelectionProgress& now) {
                            reached = now;
                            progress.write(now, digest);
                          }});
  const TimePoint selecting = clock.now();
  if (before)
    note(fmt::format("resuming after {} step{} of bounding and {} round{}", before->decided.size(),
                     before->decided.size() == 1 ? "" : "s", before->round,
                     before->round == 1 ? "" : "s"));
  const SelectionSummary summary = selection.run(before.value_or(SelectionProgress()));
  const double seconds = in_seconds(clock.now() - selecting);
  const auto sheet = write_results(selection, known.points, config.input ? &*config.input : nullptr,
                                   prepared ? &*prepared : nullptr, plan.settings.seed, run.out);
  const bool has_map =
      prepared && prepared->width > 0 && !config.neighbours && !prepared->has_neighbours;
  draw_pictures(selection, summary, reached, config, has_map ? &*prepared : nullptr, run.out);
  progress.remove();
  (void)workers.all().call_collect<&SelectionWorker::clean>().get();

  nlohmann::ordered_json json = {
      {"name", config.name},
      {"app", "select"},
      {"outcome", "done"},
      {"points", summary.ground_set.points},
      {"directed_edges", summary.ground_set.directed_edges},
      {"graph_bytes", 8 * known.points + 6 * known.edges},
      {"chosen", summary.chosen},
      {"weights", {plan.settings.utility, plan.settings.similarity}},
      {"score", summary.score},
      {"random_score", summary.random_score},
      {"score_per_point", as_units(summary.score, plan) / static_cast<double>(summary.chosen)},
      {"accepted_by_bounding", summary.accepted},
      {"discarded_by_bounding", summary.discarded},
      {"bounding_steps", summary.bounding_steps},
      {"rounds", rounds_json(summary.rounds)},
      {"point_visits", summary.point_visits},
      {"seconds", seconds},
      {"seconds_with_start", in_seconds(clock.now() - began)},
      {"recoveries", recoveries},
      {"digest", summary.digest},
      {"cap_bytes", config.cluster.memory},
      {"forecast_bytes", memory.peak()}};
  json.update(made);
  std::uint64_t peak = 0;
  for (const ResourceUsage& usage : summary.workers) {
    peak = std::max(peak, usage.peak_bytes);
    json["workers"].push_back({{"peak_bytes", usage.peak_bytes},
                               {"read_bytes", usage.read_bytes},
                               {"written_bytes", usage.written_bytes},
                               {"sent_bytes", usage.sent_bytes},
                               {"shard_reads", usage.shard_reads},
                               {"bounding_shard_reads", usage.bounding_reads},
                               {"bounding_records", usage.records}});
  }
  write_durably(run.out / "summary.json", json.dump(2) + "\n");
  note(fmt::format(
      "chose {} of {} in {}; score {:.4g} a point (a random choice: {:.4g}); {} points a second; "
      "at "
      "most {} a process",
      with_thousands(static_cast<double>(summary.chosen)),
      with_thousands(static_cast<double>(summary.ground_set.points)), format_seconds(seconds),
      as_units(summary.score, plan) / static_cast<double>(summary.chosen),
      as_units(summary.random_score, plan) / static_cast<double>(summary.chosen),
      with_thousands(static_cast<double>(summary.point_visits) / seconds), format_bytes(peak)));
  note("digest " + summary.digest);
  if (std::filesystem::exists(run.out / "progress.svg"))
    note((run.out / "progress.svg").string() + " shows how points were decided");
  note(has_map ? (run.out / "map.svg").string() + " shows where the chosen ones lie"
               : "no map.svg was drawn, as the graph was not built from vectors");
  if (sheet) note(sheet->string() + " shows some of them beside neighbours that were left out");
  if (prepared && !prepared->data_section.empty())
    note(fmt::format("to train on them, with this data: --set data.subset={}", run.out.string()));
  return kDone;
}

}  // namespace weft::apps

#include "apps/train/serve_training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/revocable_target.h"
#include "actors/cluster/run_events.h"
#include "actors/launch/app_main.h"
#include "actors/launch/exit_request.h"
#include "actors/recovery/run_recovery.h"
#include "apps/plan_options/plan_options.h"
#include "apps/run_files/checkpoint.h"
#include "apps/run_files/progress_display.h"
#include "apps/run_files/run_directory.h"
#include "apps/train/compare_layouts.h"
#include "apps/train/driver_device.h"
#include "apps/train/layout_plot.h"
#include "apps/train/run_config.h"
#include "apps/train/training_loop.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/nearest.h"
#include "core/base/terminal.h"
#include "core/base/thread.h"
#include "core/base/units.h"
#include "core/cuda_support/cuda_support.h"
#include "mesh/executor/pipeline_executor.h"
#include "mesh/plan/plan_memory.h"
#include "mesh/plan/plan_text.h"

namespace weft::apps {
namespace {

constexpr int kDone = 0;

PlannedRun read(const actors::AppRun& run, TrainingApp& app) {
  if (run.config.empty())
    throw_error(ErrorCode::kInvalidConfig,
                "{} needs a run file: start it with `weft run cluster.yaml`", app.name());
  return plan_run(run.document(), app);
}

/// Returns text such as "data 1 x tensor 2".
std::string shape_text(const mesh::MeshConfig& mesh) {
  std::string axes;
  for (const MeshAxis& axis : mesh.axes)
    axes += fmt::format("{}{} {}", axes.empty() ? "" : " x ", axis.name, axis.size);
  return axes;
}

/// Returns text such as "front (data 1 x tensor 2; 2 layers) -> back (data 2 x tensor 1; 2
/// layers)".
std::string stages_text(const mesh::ParallelConfig& layout) {
  std::string text;
  for (const mesh::StageConfig& stage : layout.stages) {
    const mesh::MeshConfig& mesh = layout.meshes[stage.mesh];
    text += fmt::format("{}{} ({}; {} {})", text.empty() ? "" : " -> ", mesh.name, shape_text(mesh),
                        stage.layers, stage.layers == 1 ? "layer" : "layers");
  }
  return text;
}

/// Returns text such as "front on worker0, back on worker1".
std::string meshes_text(const mesh::ParallelConfig& layout) {
  std::string text;
  for (const mesh::MeshConfig& mesh : layout.meshes)
    text += fmt::format(
        "{}{} on {}", text.empty() ? "" : ", ", mesh.name,
        mesh.hosts.empty() ? "all hosts" : fmt::format("{}", fmt::join(mesh.hosts, " + ")));
  return text;
}

std::string pipeline_text(const mesh::ParallelConfig& layout) {
  const std::string& schedule = layout.own_schedule ? layout.own_schedule->name : layout.schedule;
  const bool shared = layout.vocabulary != mesh::VocabularyMode::kLast;
  return fmt::format("{}{}, {} microbatches, resharding by {}", schedule,
                     shared ? fmt::format(", vocabulary by {}", to_string(layout.vocabulary)) : "",
                     layout.microbatches, transfer::to_string(layout.resharding));
}

/// Returns the most memory that a device holds, and its name: "9.2 MiB a device at most, on
/// front[0,0]; device processes are capped at 64 MiB".
std::string memory_text(const mesh::TrainingPlan& plan, std::uint64_t cap) {
  const mesh::Program* most = nullptr;
  for (const mesh::Program& program : plan.train.programs) {
    if (most == nullptr ||
        mesh::device_memory(plan, program.device) > mesh::device_memory(plan, most->device))
      most = &program;
  }
  return fmt::format(
      "{} a device at most, on {}{}", format_bytes(mesh::device_memory(plan, most->device)),
      most->device_name,
      cap == 0 ? "" : fmt::format("; device processes are capped at {}", format_bytes(cap)));
}

nlohmann::ordered_json check_json(const actors::AppRun& run, const RunConfig& config,
                                  const mesh::TrainingPlan& plan) {
  nlohmann::ordered_json json = {
      {"file", run.config.string()},
      {"valid", true},
      {"problems", nlohmann::ordered_json::array()},
      {"name", config.name},
      {"model", config.model.text},
      {"data", config.model.data},
      {"parameters", config.model.graphs.train.graph.num_parameter_elements()}};
  for (const mesh::MeshConfig& mesh : config.layout.meshes) {
    nlohmann::ordered_json shape = nlohmann::ordered_json::object();
    for (const MeshAxis& axis : mesh.axes) shape[axis.name] = axis.size;
    json["meshes"].push_back({{"name", mesh.name}, {"hosts", mesh.hosts}, {"shape", shape}});
  }
  for (const mesh::StageConfig& stage : config.layout.stages)
    json["stages"].push_back(
        {{"mesh", config.layout.meshes[stage.mesh].name}, {"layers", stage.layers}});
  json["schedule"] = config.layout.searches() ? config.layout.schedule : plan.schedule.name;
  json["microbatches"] = config.layout.microbatches;
  json["steps"] = config.training.steps;
  json["batch"] = config.training.batch;
  std::uint64_t most = 0;
  for (const mesh::Program& program : plan.train.programs)
    most = std::max(most, mesh::device_memory(plan, program.device));
  json["device_bytes_at_most"] = most;
  if (config.cluster.memory != 0) json["device_cap_bytes"] = config.cluster.memory;
  return json;
}

/// Turns a device name of `weft status`, such as "front[data=0,tensor=1]", into "front[0,1]".
std::string without_axes(const std::string& device) {
  static const std::regex kAxis(R"(([\[,])[^=,\[\]]*=)");
  return std::regex_replace(device, kAxis, "$1");
}

/// Returns the program of one device, or of all.
std::string programs_text(const mesh::TrainingPlan& plan, const std::string& asked) {
  const std::string which = without_axes(asked);
  std::string text;
  std::vector<std::string> names;
  for (const mesh::Program& program : plan.train.programs) {
    names.push_back(program.device_name);
    if (which == PlanOptions::kAllPrograms || which == program.device_name)
      text += "\n" + to_string(program);
  }
  if (text.empty()) {
    throw_error(ErrorCode::kInvalidArgument, "--programs {}: there is no such device, only {}{}",
                which, fmt::join(names, ", "), did_you_mean(which, names));
  }
  return text;
}

/// Returns the sharding of one mesh, or of all if `which` is empty, in the format of `layout:
/// FILE.strategy`.
std::string strategies_text(const mesh::TrainingPlan& plan, const std::string& which) {
  std::string text;
  std::vector<std::string> names;
  for (const mesh::MeshId mesh : plan.partition.meshes.ids()) {
    if (plan.partition.spans(mesh)) continue;
    names.push_back(plan.partition.meshes[mesh].name());
    if (!which.empty() && which != names.back()) continue;
    text += (text.empty() ? "" : "\n") + mesh::write_strategy(plan, mesh);
  }
  if (text.empty())
    throw_error(ErrorCode::kInvalidArgument, "--mesh {}: there is no such mesh, only {}{}", which,
                fmt::join(names, ", "), did_you_mean(which, names));
  return text;
}

/// Returns {"by": "NCCL 2.28.9"}, or {"by": "host memory", "reason": "device 3 is not a GPU"}.
nlohmann::ordered_json path_json(const mesh::TrainingPlan& plan, std::uint32_t op) {
  const transfer::PathChoice choice = mesh::path_of(plan, op);
  if (choice.path == transfer::PathChoice::Path::kCollectives)
    return {{"by", plan.collectives.library}};
  return {{"by", "host memory"}, {"reason", choice.reason}};
}

nlohmann::ordered_json plan_json(const RunConfig& config, const mesh::TrainingPlan& plan) {
  nlohmann::ordered_json json = {{"name", config.name},
                                 {"schedule", plan.schedule.name},
                                 {"searches_schedule", plan.layout.searches()},
                                 {"vocabulary", to_string(plan.layout.vocabulary)},
                                 {"microbatches", plan.layout.microbatches},
                                 {"resharding", transfer::to_string(plan.layout.resharding)},
                                 {"hosts", plan.hosts}};
  for (const mesh::StageConfig& stage : plan.layout.stages)
    json["stages"].push_back(
        {{"mesh", plan.layout.meshes[stage.mesh].name}, {"layers", stage.layers}});
  for (const mesh::PlannedEdge& edge : plan.train.edges) {
    std::uint64_t sent = 0;
    for (const mesh::Program& program : plan.train.programs)
      sent += edge.plan.device_part(program.device).bytes_sent();
    const Value& value = plan.partition.graph.value(edge.edge.value);
    json["edges"].push_back({{"value", value.name},
                             {"type", to_string(value.type)},
                             {"pass", to_string(edge.edge.pass)},
                             {"from", plan.partition.meshes[edge.edge.from_mesh].name()},
                             {"to", plan.partition.meshes[edge.edge.to_mesh].name()},
                             {"flows", edge.plan.flows.size()},
                             {"bytes_sent_per_microbatch", sent},
                             {"path", path_json(plan, edge.op)}});
  }
  json["driver"] = {{"checkpoint_buffer_bytes", mesh::checkpoint_buffer_bytes(plan.checkpoint)},
                    {"checkpoint_parts", plan.checkpoint.size()},
                    {"trains_during_checkpoints", plan.copies_checkpoints()}};
  if (std::string why = plan.decisions.reason_declined(mesh::PlanQuestion::kCheckpointCopies);
      !why.empty())
    json["driver"]["pauses_because"] = std::move(why);
  for (const mesh::Program& program : plan.train.programs) {
    std::uint64_t persistent = 0;
    for (const mesh::PersistentBlock& block : program.persistents) persistent += block.bytes;
    json["devices"].push_back(
        {{"name", program.device_name},
         {"host", plan.hosts[plan.topology.host_of(program.device).value()]},
         {"instructions", program.instructions.size()},
         {"persistent_bytes", persistent},
         {"activation_bytes", program.arena_bytes},
         {"checkpoint_copy_bytes", mesh::checkpoint_copy_bytes(plan, program.device)},
         {"kept_state_bytes", mesh::snapshot_bytes(plan.snapshots, program.device)},
         {"program", to_string(program)}});
  }
  return json;
}

/// Returns a function that runs the app's final report on a device of this machine. Empty if the
/// app has none. Borrows all arguments.
std::function<FinalReport(const TrainedValues&, const std::filesystem::path&)> show_of(
    const actors::AppRun& run, const RunConfig& config, const PreparedData& data,
    const Screen& screen) {
  if (!data.report_on_model) return {};
  return [&](const TrainedValues& trained, const std::filesystem::path& folder) {
    return report_on_first_device(
        driver_devices(config.device),
        [&](Device& device) {
          return data.report_on_model({device, trained, folder, run.stop});
        },
        [&](const std::string& line) {
          say(screen.out, "  {}\n", line);
          std::fflush(screen.out);
        });
  };
}

/// Warns if this machine has no usable GPU; other hosts may have some.
void note_missing_gpus(DeviceKind kind) {
  if (kind != DeviceKind::kCuda) return;
  const CudaSupport support = cuda_support(plugin_search(plugin_places()));
  if (!support.unavailable_reason.empty())
    say(stderr, "note: cluster.device is cuda, and this machine has no GPU that can be used: {}\n",
        support.unavailable_reason);
}

/// `note` is called on a recovery before the first step.
mesh::PipelineExecutorOptions group_options(const RunConfig& config, const actors::AppRun& run,
                                            actors::RunRecovery& recovery,
                                            const std::function<void(const std::string&)>& note) {
  mesh::PipelineExecutorOptions options;
  options.seed = config.seed;
  options.device = config.device;
  options.conditions = config.conditions;
  options.progress = {config.cluster.no_progress, config.cluster.longest_op};
  options.recovery = {
      .run = &recovery,
      .copy_every = config.recovery.copy_every,
      .on_early_recovery =
          [note,
           events = actors::RunEvents(run.out)](const mesh::TrainingEngine::Recovered& recovered) {
            const std::string text = fmt::format(
                "{}; replaced{} before the first step, restart {} of {}", recovered.cause,
                recovered.where.empty() ? "" : " on " + recovered.where, recovered.restart,
                recovered.max_restarts);
            note(text);
            events.add({"recovered", text});
          },
      .adopt_existing = run.restart > 0};
  return options;
}

int check_training(const actors::AppRun& run, TrainingApp& app) {
  const auto [config, plan] = read(run, app);
  if (run.planned) run.planned(mesh::digest_of_steps(plan));
  note_missing_gpus(config.device.kind);
  if (run.quiet) return kDone;
  if (run.json) {
    say(stdout, "{}\n", check_json(run, config, plan).dump(2));
    return kDone;
  }
  const Screen screen = Screen::standard_output();
  print_row(screen, "model", config.model.text);
  if (!config.model.data.empty()) print_row(screen, "data", config.model.data);
  print_row(screen, "meshes", meshes_text(config.layout));
  print_row(screen, "stages", stages_text(config.layout));
  print_row(screen, "pipeline", pipeline_text(config.layout));
  print_row(screen, "memory", memory_text(plan, config.cluster.memory));
  print_row(screen, "training",
            fmt::format("{} steps of {} rows", config.training.steps, config.training.batch));
  return kDone;
}

int plan_training(const actors::AppRun& run, TrainingApp& app) {
  const auto [config, plan] = read(run, app);
  const PlanOptions options = PlanOptions::of(run.more);
  if (!options.layouts.empty()) {
    std::vector<std::string> layouts;
    std::istringstream names(options.layouts);
    for (std::string name; std::getline(names, name, ',');) layouts.push_back(name);
    const std::vector<LayoutCosts> figures = compare_layouts(config, layouts);
    if (!options.svg.empty()) draw_layouts(figures, config.model.text).write(options.svg);
    say(stdout, "{}", run.json ? to_json(figures) : to_table(figures));
    return kDone;
  }
  if (options.strategy) {
    say(stdout, "{}", strategies_text(plan, *options.strategy));
    return kDone;
  }
  const std::string programs =
      options.programs.empty() ? "" : programs_text(plan, options.programs);
  if (run.json) {
    say(stdout, "{}\n", plan_json(config, plan).dump(2));
    return kDone;
  }
  std::string summary = config.model.text + "\n\n" + mesh::describe(plan);
  if (programs.empty()) {
    summary += fmt::format(
        "\nwhat each device does, instruction by instruction: --programs, or --programs {}\n",
        plan.train.programs.front().device_name);
  }
  const Screen screen = Screen::standard_output();
  say(stdout, "{}{}", screen.terminal ? wrap_lines(summary, screen.columns, 4) : summary, programs);
  return kDone;
}

/// Sets the checkpoint to resume from to the newest one in the run's folder, if there is one.
void resume_from_newest(const RunDirectory& directory, CheckpointConfig& checkpoint) {
  try {
    checkpoint.resume = find_checkpoint(directory.path());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
  }
}

/// Prepares the data. A restarted driver uses the data that the first driver prepared.
PreparedData prepare(const actors::AppRun& run, const RunDirectory& directory, TrainingApp& app) {
  if (run.restart > 0 && std::filesystem::exists(directory.prepared())) {
    std::ifstream file(directory.prepared(), std::ios::binary);
    const std::string kept{std::istreambuf_iterator<char>(file), {}};
    return app.prepare_after_restart(std::as_bytes(std::span(kept)));
  }
  PreparedData data = app.prepare_data();
  if (data.restart_data.empty()) return data;
  try {
    make_folders(directory.inputs());
    const std::string kept(reinterpret_cast<const char*>(data.restart_data.data()),
                           data.restart_data.size());
    write_atomically(directory.prepared(), kept, 0600);
  } catch (const std::exception&) {
    say(stderr,
        "weft: {}; training continues, but a restarted driver must prepare the data again\n",
        current_error().message());
  }
  return data;
}

/// Queue of notices of leaving hosts, from the cluster's callback to the training loop.
/// Thread-safe.
class LeaveNotices final {
 public:
  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    text_ += (text_.empty() ? "" : "; ") + text;
  }
  /// Returns and removes all notices, joined by "; ".
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, {});
  }

 private:
  Mutex mutex_;
  std::string text_;  // guarded by mutex_
};

/// Prints the transport between GPUs, and the services that the devices' memory rules out.
void print_device_rows(const Screen& screen, const mesh::TrainingPlan& plan) {
  if (const std::string gpus = mesh::describe_gpu_transfers(plan); !gpus.empty())
    print_row(screen, "GPUs", gpus);
  using mesh::PlanQuestion;
  if (const std::string why = plan.decisions.reason_declined(PlanQuestion::kCheckpointCopies);
      !why.empty())
    print_row(screen, "saving", "training pauses while a checkpoint is written: " + why);
  if (const std::string why = plan.decisions.reason_declined(PlanQuestion::kSnapshots);
      !why.empty())
    print_row(screen, "recovery", "resumes from checkpoints only: " + why);
}

/// Describes the run to the training loop.
TrainingRun describe_training(TrainingApp& app, const actors::AppRun& run, const RunConfig& config,
                              const PreparedData& data, const Screen& screen, TimePoint started) {
  return {.name = config.name,
          .app = app.name(),
          .seed = config.seed,
          .training = config.training,
          .checkpoint = config.checkpoint,
          .units_per_step = config.training.batch * config.model.units_per_row,
          .unit = config.model.unit,
          .parameters = config.model.graphs.train.graph.num_parameter_elements(),
          .model_digest = data.digest,
          .baseline = data.baseline,
          .subtitle = pipeline_text(config.layout),
          .report_on_model = show_of(run, config, data, screen),
          .restarted = run.restart > 0,
          .started = started};
}

int drive_training(actors::Cluster& cluster, const actors::AppRun& run, TrainingApp& app) {
  const SteadyClock clock;
  const TimePoint started = clock.now();
  const auto doing = [&run](actors::OnInterrupt then) {
    return [&run, then](const std::string& what) {
      if (run.on_phase) run.on_phase(what, then);
    };
  };
  doing(actors::OnInterrupt::kEndsAtOnce)("the run is starting");
  const Screen screen = Screen::standard_output();
  auto [config, plan] = read(run, app);
  if (!run.plan_digest.empty() && mesh::digest_of_steps(plan) != run.plan_digest) {
    throw_error(ErrorCode::kFailedPrecondition,
                "{} or a file that it names changed while the run started; start the run again",
                run.document().origin().name);
  }
  const RunDirectory directory = RunDirectory::open(run.out);
  if (run.restart > 0) resume_from_newest(directory, config.checkpoint);
  print_row(screen, "model", config.model.text);
  const PreparedData data = prepare(run, directory, app);
  print_row(screen, "data", data.text);
  print_row(screen, "stages", stages_text(config.layout));
  print_row(screen, "pipeline", pipeline_text(config.layout));

  const auto note = [&](const std::string& problem) {
    say(screen.out, "\n  {}\n", problem);
    std::fflush(screen.out);
  };
  actors::RunRecovery recovery(
      cluster, {.config = config.recovery,
                .hosts = config.recovery.without_spares(config.cluster.hosts),
                .restart_budget_path = run.restarts,
                .reconnect_on_failed_calls = true,
                .on_wait = [note](const std::string& why) { note("waiting for devices: " + why); },
                .stop = run.stop});
  mesh::PipelineExecutor devices(cluster, config.layout, config.model.graphs, data.batches,
                                 group_options(config, run, recovery, note), std::move(plan));
  print_device_rows(screen, devices.plan());
  const TrainingRun training = describe_training(app, run, config, data, screen, started);
  LeaveNotices leave_notices;
  const actors::RevocableTarget<LeaveNotices> ear;
  const actors::RevocableTarget<LeaveNotices>::Binding binding(ear, leave_notices);
  cluster.leaving_hosts().on_leave(
      [ear](const std::string& text) { ear.tell([&](LeaveNotices& hosts) { hosts.add(text); }); });
  const RunSummary summary = train(
      training, devices,
      {.directory = directory,
       .screen = screen,
       .clock = clock,
       .stop = run.stop,
       .checkpoint_requested = run.checkpoint_requested,
       .take_leave_notice = [&leave_notices] { return leave_notices.take(); },
       .release_leaving_hosts = [&cluster] { cluster.leaving_hosts().release(); },
       .on_activity = doing(actors::OnInterrupt::kFinishes),
       .on_progress =
           [&cluster](const actors::RunProgress& progress) { cluster.report_progress(progress); },
       .overflow_file = run.refused,
       .on_recovery =
           [events = actors::RunEvents(run.out)](const std::string& text) {
             events.add({"recovered", text});
           }});
  if (run.clean_up_begins) run.clean_up_begins();
  return summary.outcome == "done" ? kDone : actors::kInterrupted;
}

}  // namespace

int serve_training(int argc, char** argv, TrainingApp& app) {
  actors::AppMain main(argc, argv);
  main.provide<mesh::DeviceActor>(mesh::make_device_actors(
      [&app](std::span<const std::byte> prepared) { return app.open_batches(prepared); }));
  main.on_check([&app](const actors::AppRun& run) { return check_training(run, app); });
  main.on_keys([&app](const ConfigDocument& document) { read_run_file(document, app); });
  main.on_plan([&app](const actors::AppRun& run) { return plan_training(run, app); });
  main.allow_restarts();
  return main.run([&app](actors::Cluster& cluster, const actors::AppRun& run) {
    return drive_training(cluster, run, app);
  });
}

}  // namespace weft::apps

#include "apps/train/internal/drive_training.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "actors/cluster/revocable_target.h"
#include "actors/cluster/run_events.h"
#include "actors/launch/exit_request.h"
#include "actors/recovery/run_recovery.h"
#include "apps/run_files/checkpoint.h"
#include "apps/run_files/progress_display.h"
#include "apps/run_files/run_directory.h"
#include "apps/train/driver_device.h"
#include "apps/train/internal/layout_text.h"
#include "apps/train/run_config.h"
#include "apps/train/training_loop.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/terminal.h"
#include "core/base/thread.h"
#include "mesh/executor/pipeline_executor.h"
#include "mesh/plan/plan_text.h"

namespace weft::apps {
namespace {

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

}  // namespace

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
  auto [config, plan] = plan_run(run, app);
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
  return summary.outcome == "done" ? EXIT_SUCCESS : actors::kInterrupted;
}

}  // namespace weft::apps

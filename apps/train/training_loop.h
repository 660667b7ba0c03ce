#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "actors/head/cluster_messages.h"
#include "apps/run_files/progress_display.h"
#include "apps/run_files/run_directory.h"
#include "apps/run_files/run_summary.h"
#include "apps/train/trained_values.h"
#include "apps/train/training_config.h"
#include "core/base/clock.h"
#include "mesh/runtime/training_engine.h"

namespace weft::apps {

/// Description of a training run for the loop.
struct TrainingRun {
  std::string name;  ///< Name of the run: "quickstart".
  std::string app;
  std::uint64_t seed = 1;
  TrainingConfig training;
  CheckpointConfig checkpoint;
  std::int64_t units_per_step = 0;
  std::string unit = "tokens";
  std::int64_t parameters = 0;
  std::string model_digest;  ///< Hash of model, data and seed; see CheckpointMetadata.
  Baseline baseline = {};
  std::string subtitle;  ///< Subtitle of plots: "eager-1f1b, front 1x2 to back 2x1".
  /// Makes the app's final report after the devices are released. Its errors are reported but do
  /// not fail the run. May be empty.
  std::function<FinalReport(const TrainedValues&, const std::filesystem::path& folder)>
      report_on_model;
  bool restarted = false;  ///< True in a restarted driver, which resumes from the run's folder.
  TimePoint started = {};  ///< Start of the driver, for the time to the first step.
};

/// Inputs and callbacks of the loop. Borrowed.
struct LoopEnvironment {
  const RunDirectory& directory;
  Screen screen;
  const Clock& clock;
  std::stop_token stop;  ///< Checked after every step. An interrupted run writes a last checkpoint.
  /// Returns true if a checkpoint was requested since the last call. Called after every step. May
  /// be empty.
  std::function<bool()> checkpoint_requested = {};
  /// Returns a notice, once, of hosts that leave the cluster: "host worker0 leaves: ..."; empty if
  /// none do. The hosts keep their devices until release_leaving_hosts(); the loop writes a
  /// checkpoint before that. Called after every step. May be empty.
  std::function<std::string()> take_leave_notice = {};
  std::function<void()> release_leaving_hosts = {};
  /// Called with the current activity: "finishing step 37". May be empty.
  std::function<void(const std::string&)> on_activity = {};
  /// Called with the progress after the first step, then at most once a second. May be empty.
  std::function<void(const actors::RunProgress&)> on_progress = {};
  /// File for metrics that the disk refuses; see AppRun::refused.
  std::filesystem::path overflow_file = {};
  /// Called with the text of each recovery. May be empty.
  std::function<void(const std::string&)> on_recovery = {};
};

/// Trains from the checkpoint to resume, or from step 1, to the last step. Writes metrics,
/// progress, checkpoints, plots and the summary, as far as they exist also after a failure.
///
/// Returns the summary, whose outcome is "done" or "interrupted". Throws the engine's errors after
/// writing the reports.
RunSummary train(const TrainingRun& run, mesh::TrainingEngine& engine,
                 const LoopEnvironment& environment);

}  // namespace weft::apps

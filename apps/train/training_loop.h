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

/// What is to be trained, as far as the loop has to know. A value.
struct TrainingRun {
  std::string name;  ///< Of the run: "quickstart".
  std::string app;
  std::uint64_t seed = 1;
  TrainingConfig training;
  CheckpointConfig checkpoint;
  std::int64_t units_per_step = 0;
  std::string unit = "tokens";
  std::int64_t parameters = 0;
  std::string model_digest;  ///< See Checkpoint.
  Baseline baseline = {};
  std::string subtitle;  ///< For pictures: "eager-1f1b, front 1x2 to back 2x1".
  /// What the trained model can do; called when the engine's devices were given back. What it
  /// throws is told, and the run is done all the same. Empty: the app shows nothing.
  std::function<FinalReport(const TrainedValues&, const std::filesystem::path& folder)> show;
  bool restarted = false;  ///< The driver has died, and goes on with what lies in the run's folder.
  TimePoint started = {};  ///< Of the driver, for the time to the first step.
};

/// Where the loop finds and leaves things. Borrowed.
struct LoopEnvironment {
  const RunDirectory& directory;
  Screen screen;
  const Clock& clock;
  std::stop_token stop;  ///< Asked after every step: an interrupted run writes a last checkpoint.
  /// Whether somebody has asked for a checkpoint since the last call. Asked after every step. May
  /// be empty.
  std::function<bool()> checkpoint_asked = {};
  /// What leaves the cluster and keeps its devices until let_go(): "host worker0 leaves: ...",
  /// once; empty: nothing. Asked after every step; a checkpoint comes before let_go(). May be
  /// empty.
  std::function<std::string()> leaving = {};
  std::function<void()> let_go = {};
  /// Told what the loop is at: "finishing step 37". May be empty.
  std::function<void(const std::string&)> doing = {};
  /// Told how far the run is, after the first step, then once a second at most. May be empty.
  std::function<void(const actors::RunProgress&)> tell = {};
  /// Path for metrics that the disk refuses; see AppRun::refused.
  std::filesystem::path refused = {};
  /// Told of each recovery, as the screen is. May be empty.
  std::function<void(const std::string&)> on_recovery = {};
};

/// Trains from the checkpoint to resume, or from step 1, to the last step: metrics, progress,
/// validation, checkpoints; then the pictures, the summary and the last screen, which are also
/// there, as far as it came, when a step fails.
///
/// Returns how it ended ("done" or "interrupted"). Throws what the engine throws, after leaving
/// what is known in the run's folder.
RunSummary train(const TrainingRun& run, mesh::TrainingEngine& engine,
                 const LoopEnvironment& environment);

}  // namespace weft::apps

#pragma once

#include <string>

#include "apps/run_files/progress_display.h"
#include "apps/run_files/run_summary.h"
#include "apps/train/resume.h"
#include "apps/train/training_loop.h"
#include "mesh/runtime/training_engine.h"

namespace weft::apps {

/// State that the parts of a training loop share. Owned by the loop; borrows run, engine and
/// environment. Used by the driver's thread only.
struct LoopState {
  LoopState(const TrainingRun& training_run, mesh::TrainingEngine& training_engine,
            const LoopEnvironment& loop_environment, const ResumePoint& resumed)
      : run(training_run),
        engine(training_engine),
        environment(loop_environment),
        progress(environment.screen, environment.clock, resumed.steps_done, run.training.steps),
        summary{.name = run.name,
                .app = run.app,
                .steps = resumed.steps_done,
                .total_steps = run.training.steps,
                .resumed_from = resumed.steps_done,
                .parameters = run.parameters,
                .baseline = run.baseline,
                .unit = run.unit,
                .checkpoint_step = resumed.checkpoint_step} {}
  LoopState(const LoopState&) = delete;
  LoopState& operator=(const LoopState&) = delete;

  /// Runs `call`, which uses the engine. Sets `engine_failed` if it throws.
  template <typename Call>
  auto on_engine(const Call& call) {
    try {
      return call();
    } catch (...) {
      engine_failed = true;
      throw;
    }
  }

  void report_activity(const std::string& what) const {
    if (environment.on_activity) environment.on_activity(what);
  }

  const TrainingRun& run;
  mesh::TrainingEngine& engine;
  const LoopEnvironment& environment;
  ProgressDisplay progress;
  RunSummary summary;
  /// True if the last exception came from the engine, which may recover from it.
  bool engine_failed = false;
};

}  // namespace weft::apps

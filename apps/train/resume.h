#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/run_files/checkpoint.h"
#include "apps/train/training_loop.h"

namespace weft::apps {

/// Starting point of a run.
struct ResumePoint {
  std::int64_t steps_done = 0;
  std::optional<std::filesystem::path> from = {};  ///< Checkpoint that the run resumes from.
  std::int64_t checkpoint_step = 0;                ///< Step of `from`; at most `steps_done`.
};

/// Restores the engine's state from the newer of two sources: the checkpoint that the run resumes
/// from, and the state that devices kept for an earlier driver. Recovers from failures meanwhile.
/// Makes the run's folder continue from that step, and reports that on the screen. Throws
/// Error(kIncompatible) if the checkpoint is of another model, Error(kFailedPrecondition) if it has
/// all steps done, and as find_checkpoint() does.
ResumePoint resume(const TrainingRun& run, mesh::TrainingEngine& engine,
                   const LoopEnvironment& environment);

/// State that an engine was restored from.
struct RestoredState {
  std::int64_t step = 0;  ///< Steps done; 0: the initial parameters.
  bool kept = false;      ///< True if restored from the memory of devices.
};

/// Restores the newest state: the state that devices kept of `kept_step` (0: none), `stored` (may
/// be null), or the initial parameters. If it throws, `engine_failed` tells whether the engine
/// failed, which may recover, or the disk.
RestoredState restore_newest(const StoredCheckpoint* stored, std::int64_t kept_step,
                             mesh::TrainingEngine& engine, bool& engine_failed);

/// Describes a recovery of a run that had reached step 70: "worker1 died: SIGKILL; back at step 60
/// on worker2 after 1.9 s (10 steps repeated), restart 1 of 3".
std::string describe(const mesh::TrainingEngine::Recovered& recovered, std::int64_t step,
                     std::int64_t reached, Nanoseconds took);

}  // namespace weft::apps

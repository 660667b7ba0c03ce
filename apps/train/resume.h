#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/run_files/checkpoint.h"
#include "apps/train/training_loop.h"

namespace weft::apps {

/// Where a run begins.
struct Resumed {
  std::int64_t steps_done = 0;
  std::optional<std::filesystem::path> from = {};  ///< The checkpoint, if there is one,
  std::int64_t checkpoint_step = 0;                ///< which is of this step, or an earlier one.
};

/// Gives the engine the checkpoint that the run resumes from, if it does, or what devices have kept
/// for the driver before this one, if that is not older; whatever dies meanwhile. Makes the run's
/// folder its own from that step on, and says on the screen what it did.
/// Throws Error(kIncompatible) where the checkpoint is of another model, Error(kFailedPrecondition)
/// where it has all steps done, and as find_checkpoint() does.
Resumed resume(const TrainingRun& run, mesh::TrainingEngine& engine,
               const LoopEnvironment& environment);

/// What an engine goes on from.
struct Restored {
  std::int64_t step = 0;  ///< Steps done; 0: the initial parameters.
  bool kept = false;      ///< From the memory of devices.
};

/// Gives the engine the newest state: what devices have kept of `kept_step`, if that is not 0, the
/// checkpoint, or null, or the initial parameters. When it throws, `by_engine` says whether the
/// engine has, which may recover then, or the disk.
Restored restore_newest(const StoredCheckpoint* stored, std::int64_t kept_step,
                        mesh::TrainingEngine& engine, bool& by_engine);

/// "worker1 died: SIGKILL; back at step 60 on worker2 after 1.9 s (10 steps repeated), restart 1 of
/// 3", for a run that had reached step 70.
std::string describe(const mesh::TrainingEngine::Recovered& recovered, std::int64_t step,
                     std::int64_t reached, Nanoseconds took);

}  // namespace weft::apps

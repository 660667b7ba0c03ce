#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/run_files/checkpoint.h"
#include "apps/run_files/metrics.h"
#include "apps/train/background_checkpointer.h"
#include "apps/train/internal/divergence_guard.h"
#include "apps/train/internal/loop_state.h"
#include "apps/train/internal/run_metrics.h"
#include "core/base/error.h"

namespace weft::apps {

/// Checkpoints of a training run: when they are due, their writing, and the reaction to a disk that
/// refuses them. Updates the checkpoint fields of the run's summary. Used by the driver's thread
/// only.
///
/// All functions that write or wait throw the engine's errors and mark them in LoopState. They
/// throw Error(kFailedPrecondition) with advice if a value of the state is not finite. If the disk
/// refuses a checkpoint, training continues; only write_last() throws.
class RunCheckpoints final {
 public:
  /// Opens the run's folder of checkpoints. Borrows `loop`, `metrics` and `divergence`.
  RunCheckpoints(LoopState& loop, RunMetrics& metrics, const DivergenceGuard& divergence,
                 const ResumePoint& resumed);

  /// Handles the outcome of the checkpoint in progress if it is written by now.
  void poll();
  /// Blocks until the checkpoint in progress is written.
  void wait();
  /// Writes a checkpoint after a step if one is due or requested, and the step's values are finite.
  void write_if_due(const StepMetrics& metrics);
  /// Writes a checkpoint of the current step, if the run has checkpoints and the step is finite.
  /// Blocks until it is written.
  void write_before_release();
  /// Ensures that the current step, the last one, is in a checkpoint. Returns its path. Throws if
  /// the disk refuses it.
  std::filesystem::path write_last();

  /// Ends the write in progress after the failure `error` of the run; see
  /// BackgroundCheckpointer::cancel_write(). Returns the cause: the error of the write if `error`
  /// only follows from it, otherwise `error`.
  Error cancel_write(Error error);
  /// Cancels a due checkpoint when training rolls back.
  void rollback() { due_ = false; }

  /// Returns true if this process wrote a checkpoint of the current step, and no later one.
  bool is_current_step_saved() const;
  /// Newest checkpoint written by this process; empty if there is none.
  const std::filesystem::path& newest() const { return newest_; }
  /// Returns the newest checkpoint of at most `step` steps, otherwise the one that the run resumed
  /// from.
  std::optional<std::filesystem::path> newest_up_to(std::int64_t step) const;
  /// Returns the seconds for which training paused for checkpoints since the last call.
  double take_paused_seconds();
  /// Returns advice after divergence.
  std::string divergence_advice() const { return divergence_.advice(store_); }

 private:
  /// Reaction to a checkpoint that the disk refuses.
  enum class OnDiskError : std::uint8_t { kGoOn, kTryAgainNow, kFail };

  void request(std::int64_t step);
  void write_if_finite(const StepMetrics& metrics);
  /// Starts a checkpoint after the previous one. Synchronous if the engine cannot copy its state.
  void write(std::int64_t step, OldCheckpoints old_ones);
  /// Waits for the previous checkpoint, and reports a long wait once.
  void wait_for_previous(std::int64_t step);
  /// Handles the outcome of a checkpoint, if any.
  void handle(const std::optional<BackgroundCheckpointer::Outcome>& outcome,
              OnDiskError on_refusal);
  /// Throws or reports the error of a checkpoint that the disk refused.
  void handle_refusal(std::int64_t step, const Error& error, OnDiskError on_refusal);

  LoopState& loop_;
  RunMetrics& metrics_;
  const DivergenceGuard& divergence_;
  const std::optional<std::filesystem::path> resumed_from_;
  CheckpointStore store_;
  BackgroundCheckpointer checkpointer_;
  std::filesystem::path newest_;
  Nanoseconds paused_before_ = Nanoseconds::zero();  ///< Pause up to the last step.
  bool due_ = false;
  bool wait_reported_ = false;  ///< True once a wait for the previous checkpoint was reported.
};

}  // namespace weft::apps

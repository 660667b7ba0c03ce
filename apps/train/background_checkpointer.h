#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "apps/run_files/checkpoint.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "mesh/runtime/training_engine.h"

namespace weft::apps {

/// Writer of a run's checkpoints, one at a time. If the engine can copy its state, begin() copies
/// it and a thread writes the copy while training continues. Otherwise begin() writes it
/// synchronously.
///
///   begin(step 100): copy ─▶ steps 101, 102, ... ─▶ poll(): written
///                       └─▶ thread: gather, write, rename ─┘
///
/// At most one write is in progress, since memory suffices for one copy. Borrows store, engine and
/// clock. The store and the engine's gather() are in use until the write ends. Used by the driver's
/// thread only.
class BackgroundCheckpointer final {
 public:
  /// Result of writing a checkpoint.
  struct Outcome {
    std::int64_t step = 0;
    std::filesystem::path path = {};
    std::optional<Error> error = {};  ///< The checkpoint does not exist then.
    /// True if the disk, or a check of the values, refused the checkpoint; the engine is
    /// unaffected. False if the engine failed.
    bool engine_intact = false;
  };

  BackgroundCheckpointer(CheckpointStore& store, mesh::TrainingEngine& engine, const Clock& clock);
  /// Calls cancel_write().
  ~BackgroundCheckpointer();
  BackgroundCheckpointer(const BackgroundCheckpointer&) = delete;
  BackgroundCheckpointer& operator=(const BackgroundCheckpointer&) = delete;

  /// Starts a checkpoint of the current state. Call wait() first if one is in progress. Throws the
  /// engine's errors while it copies the state.
  void begin(const CheckpointMetadata& heading, OldCheckpoints old_ones);
  bool in_progress() const { return writing_ != nullptr; }
  /// Returns the outcome of the last checkpoint once. Returns nullopt while it is in progress or if
  /// there is none.
  std::optional<Outcome> poll();
  /// Blocks until the checkpoint is written, then returns as poll().
  std::optional<Outcome> wait();
  /// Ends the write after a failure of the run, then returns as poll(). Stops waiting for devices,
  /// but writes a checkpoint whose values have all arrived.
  std::optional<Outcome> cancel_write();
  /// Total time for which begin() and wait() blocked.
  Nanoseconds paused() const { return paused_; }

 private:
  struct Writing;
  std::optional<Outcome> take();

  CheckpointStore& store_;
  mesh::TrainingEngine& engine_;
  const Clock& clock_;
  std::unique_ptr<Writing> writing_;
  Nanoseconds paused_ = Nanoseconds::zero();
};

}  // namespace weft::apps

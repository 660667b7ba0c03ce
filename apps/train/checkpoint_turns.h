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

/// The checkpoints of a run, one after the other. Where the engine copies its state, a thread of
/// its own writes from the copy while training goes on; else begin() returns when all is written.
///
///   begin(step 100): copy ─▶ steps 101, 102, ... ─▶ poll(): written
///                       └─▶ thread: gather, write, rename ─┘
///
/// At most one is under way: there is memory for one copy. Borrows store, engine and clock; from
/// begin() to the end of what it has begun the store and the engine's gather() are in use. The
/// driver's thread only.
class CheckpointTurns final {
 public:
  /// What has come of a checkpoint. A value.
  struct Outcome {
    std::int64_t step = 0;
    std::filesystem::path path = {};
    std::optional<Error> error = {};  ///< Nothing of it is left then.
    /// By the disk, or for what it would hold: the engine can go on.
    bool refused = false;
  };

  CheckpointTurns(CheckpointStore& store, mesh::TrainingEngine& engine, const Clock& clock);
  /// As give_up().
  ~CheckpointTurns();
  CheckpointTurns(const CheckpointTurns&) = delete;
  CheckpointTurns& operator=(const CheckpointTurns&) = delete;

  /// Of the state as it is now. None may be under way: wait() first. Throws what the engine throws
  /// while it copies.
  void begin(const CheckpointHeading& heading, OldOnes old_ones);
  bool under_way() const { return writing_ != nullptr; }
  /// What has come of the one that was begun, once; nothing while it is under way, or where there
  /// is none.
  std::optional<Outcome> poll();
  /// The same, and waits for its end.
  std::optional<Outcome> wait();
  /// The same for a run that has failed: what still waits for devices is given up, and what they
  /// have handed over is written.
  std::optional<Outcome> give_up();
  /// How long begin() and wait() have kept the caller, all together.
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

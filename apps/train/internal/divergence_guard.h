#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "apps/run_files/checkpoint.h"
#include "apps/run_files/metrics.h"
#include "apps/train/internal/loop_state.h"

namespace weft::apps {

/// Detector of divergence: counts consecutive steps with a non-finite loss or gradients. Used by
/// the driver's thread only.
class DivergenceGuard final {
 public:
  /// Borrows `loop`.
  DivergenceGuard(LoopState& loop, std::int64_t steps_done)
      : loop_(loop), last_finite_step_(steps_done) {}

  /// Checks a step, and reports a skipped update on the screen. `not_finite` is the index of the
  /// first parameter whose gradient is not finite. Returns an error message, without its advice,
  /// after `training.max_skipped_updates` bad steps in a row.
  std::optional<std::string> check(const StepMetrics& metrics,
                                   std::optional<std::uint32_t> not_finite);
  /// Returns true if loss and gradients of `step`, the newest one, are finite. Also true for the
  /// step that the run starts after.
  bool is_finite(std::int64_t step) const { return last_finite_step_ == step; }
  /// Forgets the steps after `step`, since they are repeated.
  void rollback(std::int64_t step) { last_finite_step_ = std::min(last_finite_step_, step); }
  /// Returns advice after divergence: what to change, and a checkpoint in `store` to resume from.
  std::string advice(const CheckpointStore& store) const;

 private:
  std::string name_of(std::optional<std::uint32_t> parameter) const;

  LoopState& loop_;
  std::int64_t last_finite_step_;
  std::int64_t skipped_ = 0;  ///< Updates skipped by this process.
};

}  // namespace weft::apps

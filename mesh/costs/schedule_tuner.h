#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/costs/find_schedule.h"
#include "mesh/runtime/step_result.h"

namespace weft::mesh {

/// Tuner of the schedule of a run with `schedule: auto`. Measures steps 2 to 4, searches a
/// schedule, tries it for as many steps, and returns to the first schedule if the new one is
/// slower.
///
///   cold -> measuring (3 steps) -> [new schedule] cold -> trying (3 steps) -> settled
///                               `-> settled                                `-> [the first] settled
///
/// A value; pure: the same results lead to the same decisions.
class ScheduleTuner final {
 public:
  /// Plan to switch to, if any, and a note for the user, often empty.
  struct Advice {
    std::optional<TrainingPlan> plan = {};
    std::string note = {};
  };

  /// Records a step of `plan`'s training program. Does nothing unless the layout's schedule is
  /// `auto`.
  Advice after_step(const TrainingPlan& plan, const StepResult& result, const Replan& again);

 private:
  enum class State : std::uint8_t { kMeasuring, kTrying, kSettled };

  Advice search(const TrainingPlan& plan, const Replan& again);
  Advice keep_or_revert(const TrainingPlan& plan, const Replan& again);

  static constexpr int kMeasuredSteps = 3;  ///< Steps measured after a cold one.

  State state_ = State::kMeasuring;
  int steps_ = 0;                    ///< Steps done in this state.
  std::vector<StepResult> results_;  ///< Results of the measured steps.
  std::string first_schedule_;
  double seconds_before_ = 0;  ///< Measured seconds of a step under the first schedule.
  double work_before_ = 0;     ///< Seconds of all actions of such a step.
  double predicted_ = 0;
};

}  // namespace weft::mesh

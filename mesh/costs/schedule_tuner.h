#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/costs/find_schedule.h"
#include "mesh/runtime/step_result.h"

namespace weft::mesh {

/// The part of a run of `auto` that looks at its steps: measures the second to the fourth, searches
/// a schedule, looks whether the job has become faster, and goes back to where it began if it has
/// not.
///
///   cold -> measuring (3 steps) -> [new schedule] cold -> trying (3 steps) -> settled
///                               `-> settled                                `-> [the first] settled
///
/// A value; pure: the same results lead to the same decisions.
class ScheduleTuner final {
 public:
  /// What a running job should do: go on with this plan, if there is one. `note` is for the user,
  /// mostly empty.
  struct Advice {
    std::optional<TrainingPlan> plan = {};
    std::string note = {};
  };

  /// Takes in a step of `plan`'s training program. Does nothing for a layout that wants no search.
  Advice after_step(const TrainingPlan& plan, const StepResult& result, const PlanAgain& again);

 private:
  enum class State : std::uint8_t { kMeasuring, kTrying, kSettled };

  Advice search(const TrainingPlan& plan, const PlanAgain& again);
  Advice judge(const TrainingPlan& plan, const PlanAgain& again);

  static constexpr int kMeasured = 3;  ///< Steps, behind a cold one.

  State state_ = State::kMeasuring;
  int steps_ = 0;                    ///< In this state.
  std::vector<StepResult> results_;  ///< Of the measured ones.
  std::string began_with_;
  double seconds_before_ = 0;  ///< A step of the first schedule, measured.
  double work_before_ = 0;     ///< All actions of a step of it.
  double predicted_ = 0;
};

}  // namespace weft::mesh

#include "mesh/costs/schedule_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/statistics.h"
#include "core/base/units.h"
#include "mesh/plan/schedule_choice.h"

namespace weft::mesh {
namespace {

constexpr double kNoiseFactor = 1.03;  // Slowdowns below this are noise.

/// Returns the median, so that a disturbed step does not count.
double step_seconds(const std::vector<StepResult>& results) {
  std::vector<double> seconds;
  for (const StepResult& result : results) seconds.push_back(result.seconds);
  return median(std::move(seconds));
}

/// Returns the medians of each entry. All steps are of one plan, so their entries correspond.
std::vector<ActionTime> action_times(const std::vector<StepResult>& results) {
  std::vector<ActionTime> times = results.front().action_times;
  for (std::size_t i = 0; i < times.size(); ++i) {
    std::vector<double> seconds, collective;
    for (const StepResult& result : results) {
      seconds.push_back(result.action_times[i].seconds);
      collective.push_back(result.action_times[i].collective_seconds);
    }
    times[i].seconds = median(std::move(seconds));
    times[i].collective_seconds = median(std::move(collective));
  }
  return times;
}

/// Returns the seconds of all actions of a step.
double work_seconds(const std::vector<ActionTime>& times) {
  double work = 0;
  for (const ActionTime& time : times) work += time.count * time.seconds;
  return work;
}

std::vector<EdgeTime> edge_times(const std::vector<StepResult>& results) {
  std::vector<EdgeTime> times = results.front().edge_times;
  for (std::size_t i = 0; i < times.size(); ++i) {
    std::vector<double> seconds;
    for (const StepResult& result : results) seconds.push_back(result.edge_times[i].seconds);
    times[i].seconds = median(std::move(seconds));
  }
  return times;
}

}  // namespace

ScheduleTuner::Advice ScheduleTuner::after_step(const TrainingPlan& plan, const StepResult& result,
                                                const Replan& again) {
  if (plan.layout.schedule != ParallelConfig::kAuto || state_ == State::kSettled) return {};
  if (++steps_ > 1) results_.push_back(result);
  if (results_.size() < kMeasuredSteps) return {};
  Advice advice = state_ == State::kMeasuring ? search(plan, again) : keep_or_revert(plan, again);
  results_.clear();
  steps_ = 0;
  return advice;
}

ScheduleTuner::Advice ScheduleTuner::search(const TrainingPlan& plan, const Replan& again) {
  first_schedule_ = plan.schedule.name;
  seconds_before_ = step_seconds(results_);
  const std::vector<ActionTime> times = action_times(results_);
  work_before_ = work_seconds(times);
  std::optional<ScheduleImprovement> found =
      find_schedule(plan, times, edge_times(results_), again);
  if (!found) {
    state_ = State::kSettled;
    return {{},
            fmt::format("schedule auto: keeping {}: the search found no faster schedule",
                        first_schedule_)};
  }
  state_ = State::kTrying;
  predicted_ = found->seconds;
  found->plan.decisions.record(
      {PlanQuestion::kSchedule, "a schedule that the search found",
       fmt::format("a step should take {}, and {} with {}", format_seconds(found->seconds),
                   format_seconds(found->seconds_before), first_schedule_)});
  std::string note = fmt::format(
      "schedule auto: switching to a schedule that the search found: expected step time {} ({}: "
      "measured {}, expected {}), memory of the fullest device {} (was {})",
      format_seconds(found->seconds), first_schedule_, format_seconds(seconds_before_),
      format_seconds(found->seconds_before), format_bytes(found->memory),
      format_bytes(found->memory_before));
  return {std::move(found->plan), std::move(note)};
}

ScheduleTuner::Advice ScheduleTuner::keep_or_revert(const TrainingPlan& plan, const Replan& again) {
  state_ = State::kSettled;
  const double seconds = step_seconds(results_);
  std::string outcome = fmt::format(
      "schedule auto: a step takes {}; simulation predicted {}; before, it took {} with {}",
      format_seconds(seconds), format_seconds(predicted_), format_seconds(seconds_before_),
      first_schedule_);
  if (seconds <= seconds_before_) return {{}, outcome};
  // The simulation assumes that an action takes as long under any schedule. Devices that share
  // processors or memory bandwidth break that: each takes longer when more of them compute at a
  // time, and no schedule finishes the work sooner.
  const double work = work_seconds(action_times(results_));
  if (work > kNoiseFactor * work_before_) {
    outcome += fmt::format(
        "; its ops take {:.2f} times as long, because more devices compute at the same time and "
        "share processors or memory",
        work / work_before_);
  }
  ParallelConfig first = plan.layout;
  first.own_schedule.reset();
  first.vocabulary_times.reset();
  TrainingPlan back = again(first);
  // A schedule that was slower in practice is not searched again.
  back.layout.own_schedule = schedule_before_duplex(back);
  back.decisions.record({PlanQuestion::kSchedule, first_schedule_,
                         fmt::format("a step took {}, and {} with the schedule that the search "
                                     "found",
                                     format_seconds(seconds_before_), format_seconds(seconds))});
  return {std::move(back), outcome + "; switching back"};
}

}  // namespace weft::mesh

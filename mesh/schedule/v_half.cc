// V-Half and V-Min (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, sections 3
// and 4). One microbatch's pattern on a V of stages repeats every six ticks. It is chosen so that
// the two stages of every actor together hold their activations for equally long. That takes a half
// and a third of 1F1B's memory. Then ramp-up and ramp-down are compressed as far as that memory
// allows.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "mesh/schedule/internal/generators.h"

namespace weft::mesh {
namespace {

// Kinds of an actor's tasks, in the order of one microbatch. Each takes one tick.
enum Task : std::size_t { kF0, kF1, kI1, kI0, kTasks };
constexpr int kPeriod = 6;

/// Ticks at which one microbatch's four tasks start on an actor. The next microbatch follows six
/// ticks later.
using Pattern = std::array<int, kTasks>;

Pattern v_half_pattern(int actor, int p) {
  const int shift = p % 2 == 0 ? 3 : 0;
  return {2 * actor, 3 * p - actor - 2, 3 * p + shift + 2 * actor - 1, 6 * p + shift - actor - 2};
}

Pattern v_min_pattern(int actor, int p) {
  const int shift = p % 3 == 0 ? 2 : 0;
  return {actor, 2 * p - actor - 1, 2 * p + shift + actor, 4 * p + shift - actor - 1};
}

/// Ticks at which an actor's tasks start, by kind and microbatch; ascending in the microbatch.
struct Timetable {
  std::array<std::vector<int>, kTasks> tasks;
  /// Ticks of weight gradients. The k-th belongs to the k-th input gradient in time, of either
  /// chunk.
  std::vector<int> weights;

  int last() const {
    int last = 0;
    for (const auto& ticks : tasks) last = std::max(last, ticks.back());
    return weights.empty() ? last : std::max(last, weights.back());
  }
};

/// Codes of a tick in a line besides the kinds of Task.
constexpr int kIdle = -1;
constexpr int kWeight = kTasks;

std::vector<int> ticks_of(const Timetable& table) {
  std::vector<int> line(table.last() + 1, kIdle);
  for (std::size_t task = 0; task < kTasks; ++task) {
    for (const int tick : table.tasks[task]) line[tick] = task;
  }
  for (const int tick : table.weights) line[tick] = kWeight;
  return line;
}

/// Places a weight gradient in every free tick when one is pending, and the rest after the last
/// task.
void fill_weights(Timetable& table) {
  table.weights.clear();
  const std::vector<int> line = ticks_of(table);
  int waiting = 0, tick = 0;
  for (; tick < std::ssize(line); ++tick) {
    const int task = line[tick];
    if (task == kI1 || task == kI0) {
      ++waiting;
    } else if (task == kIdle && waiting > 0) {
      table.weights.push_back(tick);
      --waiting;
    }
  }
  for (; waiting > 0; --waiting) table.weights.push_back(tick++);
}

/// Returns the most activations held at once, of both chunks, from F to W. `weights_float`: a
/// weight gradient runs in every free tick; otherwise weight gradients are in `line`.
int peak_memory(const std::vector<int>& line, bool weights_float) {
  int held = 0, peak = 0, waiting = 0;
  for (const int task : line) {
    if (task == kF0 || task == kF1) peak = std::max(peak, ++held);
    if (task == kWeight) --held;
    if (task == kI1 || task == kI0) ++waiting;
    if (weights_float && task == kIdle && waiting > 0) {
      --waiting;
      --held;
    }
  }
  return peak;
}

/// Task of an actor for a microbatch; for kWeight, `index` is the number of the weight gradient.
struct ScheduledTask {
  int tick = 0;
  int actor = 0;
  int task = 0;
  int index = 0;
  friend auto operator<=>(const ScheduledTask&, const ScheduledTask&) = default;
};

/// Detects the phases of a pipeline from its tasks in order of time.
class PhaseTracker {
 public:
  enum class Phase { kRampUp, kSteady, kRampDown };

  explicit PhaseTracker(int microbatches) : microbatches_(microbatches) {}

  /// Returns the phase of a task. The first actor's last task of a microbatch ends ramp-up. An
  /// actor's last forward ends the steady phase, which is empty if the first actor has started all
  /// forwards before.
  Phase phase_of(const ScheduledTask& place) {
    const bool last_forward = place.task == kF0 && place.index == microbatches_ - 1;
    if (phase_ == Phase::kRampUp && place.actor == 0 && place.task == kI0)
      phase_ = all_forwards_begun_ ? Phase::kRampDown : Phase::kSteady;
    if (last_forward && place.actor == 0) all_forwards_begun_ = true;
    const Phase now = phase_;
    if (now == Phase::kSteady && last_forward) phase_ = Phase::kRampDown;
    return now;
  }

 private:
  const int microbatches_;
  Phase phase_ = Phase::kRampUp;
  bool all_forwards_begun_ = false;
};

class VPipeline {
 public:
  VPipeline(int actors, int microbatches, Pattern (*pattern)(int, int))
      : microbatches_(microbatches) {
    for (int actor = 0; actor < actors; ++actor) {
      const Pattern starts = pattern(actor, actors);
      Timetable& table = tables_.emplace_back();
      for (std::size_t task = 0; task < kTasks; ++task) {
        for (int i = 0; i < microbatches; ++i)
          table.tasks[task].push_back(starts[task] + kPeriod * i);
      }
    }
  }

  /// Compresses ramp-up and ramp-down with the weight gradients in place. Then compresses ramp-down
  /// again without them, as weight gradients may then move behind tasks that others wait for.
  void squeeze() {
    for (Timetable& table : tables_) fill_weights(table);
    move_early(true);
    compact();
    for (Timetable& table : tables_) table.weights.clear();
    move_early(false);
    for (Timetable& table : tables_) fill_weights(table);
    compact();
  }

  /// Returns the actor's actions in order. Reassigns weight gradients to free ticks, chunk 1 first.
  std::vector<Action> actions(int actor) const {
    const int stages[] = {actor, 2 * static_cast<int>(tables_.size()) - 1 - actor};
    Timetable table = tables_[actor];
    table.weights.clear();
    std::vector<int> line = ticks_of(table);
    std::array<int, kTasks> next = {};
    std::array<int, 2> weights_done = {};
    std::vector<Action> result;
    const auto run_weight = [&] {
      for (const int chunk : {1, 0}) {
        const std::size_t input = chunk == 1 ? kI1 : kI0;
        const std::size_t c = chunk;
        if (weights_done[c] == next[input]) continue;
        result.push_back({stages[chunk], ActionKind::kWeightGrad, weights_done[c]++});
        return true;
      }
      return false;
    };
    for (const int task : line) {
      if (task == kIdle) {
        run_weight();
        continue;
      }
      const std::size_t t = task;
      const int chunk = t == kF1 || t == kI1 ? 1 : 0;
      result.push_back({stages[chunk],
                        t == kF0 || t == kF1 ? ActionKind::kForward : ActionKind::kInputGrad,
                        next[t]++});
    }
    while (run_weight()) {
    }
    return result;
  }

 private:
  using Phase = PhaseTracker::Phase;

  std::vector<ScheduledTask> places() const {
    std::vector<ScheduledTask> result;
    for (std::size_t actor = 0; actor < tables_.size(); ++actor) {
      const auto add = [&](int task, const std::vector<int>& ticks) {
        for (std::size_t i = 0; i < ticks.size(); ++i)
          result.push_back({ticks[i], static_cast<int>(actor), task, static_cast<int>(i)});
      };
      for (std::size_t task = 0; task < kTasks; ++task) add(task, tables_[actor].tasks[task]);
      add(kWeight, tables_[actor].weights);
    }
    std::ranges::sort(result);
    return result;
  }

  int& tick(int actor, int task, int index) {
    Timetable& table = tables_[actor];
    return (task == kWeight ? table.weights : table.tasks[task])[index];
  }

  /// Returns the last tick of a task's dependencies, or -1. `inputs`: ticks of each actor's input
  /// gradients so far, ascending.
  int needed(const ScheduledTask& place, const std::vector<std::vector<int>>& inputs) {
    int last = -1;
    const auto after = [&](int actor, int task, int index) {
      last = std::max(last, tick(actor, task, index));
    };
    const int end = std::ssize(tables_) - 1;
    if ((place.task == kF0 || place.task == kI1) && place.actor > 0)
      after(place.actor - 1, place.task, place.index);
    if ((place.task == kF1 || place.task == kI0) && place.actor < end)
      after(place.actor + 1, place.task, place.index);
    if (place.task == kWeight) {
      last = std::max(last, inputs[place.actor][place.index]);
    } else if (place.task != kF0) {
      after(place.actor, place.task - 1, place.index);
    }
    if (place.index > 0) after(place.actor, place.task, place.index - 1);
    return last;
  }

  /// Moves every task of ramp-down, and of ramp-up if `weights_in_place`, to the first free tick
  /// that its dependencies and the actor's memory allow. The steady phase does not change.
  void move_early(bool weights_in_place) {
    std::vector<std::vector<int>> lines;
    int limit = 0;
    for (const Timetable& table : tables_) {
      lines.push_back(ticks_of(table));
      limit = std::max(limit, peak_memory(lines.back(), !weights_in_place));
    }
    std::vector<std::vector<int>> inputs(tables_.size());
    PhaseTracker tracker(microbatches_);
    for (const ScheduledTask& place : places()) {
      const Phase phase = tracker.phase_of(place);
      if (phase == Phase::kRampDown || (phase == Phase::kRampUp && weights_in_place))
        move(place, needed(place, inputs) + 1, lines[place.actor], limit, !weights_in_place);
      if (place.task == kI1 || place.task == kI0) {
        std::vector<int>& done = inputs[place.actor];
        const int at = tick(place.actor, place.task, place.index);
        done.insert(std::ranges::upper_bound(done, at), at);
      }
    }
  }

  void move(const ScheduledTask& place, int earliest, std::vector<int>& line, int limit,
            bool weights_float) {
    for (int to = earliest; to < place.tick; ++to) {
      if (line[to] != kIdle) continue;
      std::swap(line[to], line[place.tick]);
      if (peak_memory(line, weights_float) <= limit) {
        tick(place.actor, place.task, place.index) = to;
        return;
      }
      std::swap(line[to], line[place.tick]);
    }
  }

  /// Moves every task as early as its dependencies and the order on its actor allow.
  void compact() {
    std::vector<int> free_from(tables_.size(), 0);
    std::vector<std::vector<int>> inputs(tables_.size());
    for (const ScheduledTask& place : places()) {
      int& from = free_from[place.actor];
      from = std::max(from, needed(place, inputs) + 1);
      tick(place.actor, place.task, place.index) = from;
      if (place.task == kI1 || place.task == kI0) inputs[place.actor].push_back(from);
      ++from;
    }
  }

  const int microbatches_;
  std::vector<Timetable> tables_;
};

Schedule make(const ScheduleRequest& request, Pattern (*pattern)(int, int)) {
  Schedule schedule = empty_schedule(request, StagePlacement::kVShaped);
  VPipeline pipeline(request.actors, request.microbatches, pattern);
  pipeline.squeeze();
  for (int actor = 0; actor < request.actors; ++actor)
    schedule.actors[actor] = pipeline.actions(actor);
  return schedule;
}

}  // namespace

Schedule make_v_half(const ScheduleRequest& request) { return make(request, v_half_pattern); }
Schedule make_v_min(const ScheduleRequest& request) { return make(request, v_min_pattern); }

}  // namespace weft::mesh

#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "mesh/search/internal/action_events.h"
#include "mesh/search/internal/lane_transfers.h"
#include "mesh/search/search.h"

namespace weft::mesh {

/// Fast evaluator of time and memory, as simulate() computes them, for many orders of the same
/// actions. Precomputes what does not depend on the order, and allocates nothing during play().
/// Supports F, I, W and B with microbatches in order on every stage. One thread at a time.
///
/// Each actor runs until it waits for a tensor whose arrival is not known yet (ActionEvents,
/// LaneTransfers). If interfaces serve in turn, a receiver continues when its transfer is computed:
/// its later tensors have later times.
class SearchEvaluator {
 public:
  /// Returns false if the request needs simulate(): interfaces that are shared fairly, vocabulary
  /// passes, or actions that wait for their sends. Schedules with compounds always need it.
  static bool supports(const SearchRequest& request);

  /// Borrows the request, for which supports() must be true.
  explicit SearchEvaluator(const SearchRequest& request);
  SearchEvaluator(const SearchEvaluator&) = delete;
  SearchEvaluator& operator=(const SearchEvaluator&) = delete;

  struct PlayOutcome {
    bool finishes = false;
    bool too_slow = false;  ///< Abandoned, as the step exceeds `longest_step`.
    bool fits = false;
    double step = 0, makespan = 0, mean_action_end = 0;
    double peak = 0;  ///< Peak memory; 0 if there is no memory limit and `with_peak` is false.
  };
  PlayOutcome play(const Schedule& schedule,
                   double longest_step = std::numeric_limits<double>::infinity(),
                   bool with_peak = false);

  /// Returns start and end of an actor's action in the schedule of the last play().
  std::pair<double, double> span(std::size_t actor, std::size_t index) const {
    const Played& one = played_[first_[actor] + index];
    return {one.start, one.end};
  }
  /// Returns the actions of the critical path of the last play() that start when the previous
  /// action on their actor ends.
  std::vector<std::pair<int, int>> blocked_by_order(const Schedule& schedule) const;

 private:
  struct Played {
    double start = 0, end = 0;
    int lane = -1;  ///< Lane whose tensor it waited for last; -1 if it waited only for its actor.
  };
  struct StageProgress {
    std::size_t forwards = 0, inputs = 0, weights = 0;  ///< Microbatches completed.
  };
  struct Cursor {
    std::size_t index = 0;
    std::size_t event = 0;
    bool begun = false;
    bool queued = false;
    int blocked_on = -1;  ///< Lane that it waits for, or -1.
    double time = 0, idle = 0;
    Played now;
  };

  void reset(const Schedule& schedule);
  bool is_complete() const;
  void score(PlayOutcome& outcome) const;
  bool begin(const Action& action, const ActionEvents::ActionProgram& program) const;
  void end(const Action& action, const ActionEvents::ActionProgram& program, double time);
  void wake_receiver(int lane);
  enum class RunOutcome : unsigned char { kDone, kBlocked, kImpossible, kTooSlow };
  RunOutcome run(const Schedule& schedule, std::size_t actor, double longest);
  void sweep_activations(const Schedule& schedule, PlayOutcome& outcome);
  void sweep_tensors(const Schedule& schedule, PlayOutcome& outcome);
  void note_peak(std::size_t actor, double peak, PlayOutcome& outcome) const;

  const SearchRequest& request_;
  const std::size_t microbatches_;
  const ActionEvents events_;
  LaneTransfers transfers_;
  std::vector<double> reduce_;  ///< Reduction time after an actor's last action, by actor.
  double optimizer_ = 0;
  std::vector<double> work_of_stages_;  ///< Work by actor, without the overhead per action.

  std::vector<StageProgress> stages_;
  std::vector<Cursor> cursors_;
  std::vector<std::size_t> first_;  ///< First index into played_, by actor.
  std::vector<Played> played_;
  std::vector<std::size_t> queue_;      ///< Actors that may continue.
  std::vector<MemoryTimeline> memory_;  ///< Memory sweeps by actor.
};

}  // namespace weft::mesh

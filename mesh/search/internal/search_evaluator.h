#pragma once

#include <compare>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "mesh/search/search.h"

namespace weft::mesh {

/// Fast evaluator of time and memory, as simulate() computes them, for many orders of the same
/// actions. Precomputes what does not depend on the order, and allocates nothing during play().
/// Supports F, I, W and B with microbatches in order on every stage. One thread at a time.
///
/// An action is a list of events with time between them: each event waits for a tensor or completes
/// one. A transfer is computed when its tensor is awaited: an edge's tensors are awaited in
/// production order, so that all dependencies are known then. If interfaces serve in turn,
/// transfers are computed in order of time instead, and receivers continue then: their later
/// tensors have later times.
class SearchEvaluator {
 public:
  /// Returns false if the request needs simulate(): interfaces that are shared fairly, compounds
  /// that run as one, vocabulary passes, or actions that wait for their sends.
  static bool supports(const SearchRequest& request);

  /// Borrows the request, for which supports() must be true.
  explicit SearchEvaluator(const SearchRequest& request);

  struct Outcome {
    bool finishes = false;
    bool too_slow = false;  ///< Abandoned, as the step exceeds `longest_step`.
    bool fits = false;
    double step = 0, makespan = 0, mean_action_end = 0;
    double peak = 0;  ///< Peak memory; 0 if there is no memory limit and `with_peak` is false.
  };
  Outcome play(const Schedule& schedule,
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
  struct Event {
    double before = 0;  ///< Time from the previous event, or from the start of the action.
    int lane = 0;
    bool makes = false;
  };
  /// Events of a (stage, kind).
  struct Program {
    /// Range of events; those before `start` precede the beginning of the action.
    std::size_t first = 0, start = 0, past = 0;
    double rest = 0;  ///< Time after the last event.
    /// Stages on the same actor whose outputs the action needs.
    std::vector<int> stages_before;
  };
  /// Point within an action at which a tensor is completed or needed.
  struct TensorEvent {
    double position = 0;
    int step = 0;
    bool makes = false;
    int lane = 0;
  };
  struct Lane {
    bool exists = false;
    int from_actor = 0, to_actor = 0;
    int from_stage = 0, to_stage = 0;
    double seconds = 0;
    double bytes = 0;
    std::size_t out = 0, in = 0;  ///< Interfaces of sender and receiver; equal if none is used.
    std::size_t made = 0;         ///< Number of tensors completed.
    std::size_t moved = 0;        ///< Number of transfers computed.
    std::size_t used = 0;         ///< Number of tensors whose user has ended.
    bool queued = false;          ///< True if the next transfer is in `turns_`.
    double free_at = 0;
  };
  enum class HeldUp : unsigned char { kByMaking, kByLane, kByCredit, kByInterface };
  struct Tensor {
    double made = 0, start = 0, end = 0;
    double used = 0;  ///< End of the action that uses it.
    HeldUp held_up = HeldUp::kByMaking;
    int after = -1;  ///< Index into tensors_ of the interface's previous transfer.
  };
  struct Interface {
    double free_at = 0;
    int last = -1;  ///< Index into tensors_ of the last transfer.
  };
  struct Turn {
    double ready = 0;
    int lane = 0;
    friend auto operator<=>(const Turn&, const Turn&) = default;
  };
  struct Played {
    double start = 0, end = 0;
    int lane = -1;  ///< Lane whose tensor it waited for last; -1 if it waited only for its actor.
  };
  struct Stage {
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

  static constexpr std::size_t kKinds = 4;
  std::size_t program_of(const Action& action) const {
    return action.stage * kKinds + static_cast<std::size_t>(action.kind);
  }
  Tensor& tensor(int lane, std::size_t microbatch) {
    return tensors_[lane * microbatches_ + microbatch];
  }
  const Tensor& tensor(int lane, std::size_t microbatch) const {
    return tensors_[lane * microbatches_ + microbatch];
  }

  /// Returns whether a lane carries gradients. Lanes are in pairs: an edge's activations, then its
  /// gradients.
  static bool is_backward(std::size_t lane) { return lane % 2 == 1; }
  /// Returns whether actions of that kind produce or use the lane's tensors.
  static bool carries(std::size_t lane, ActionKind kind) {
    return kind != ActionKind::kWeightGrad && is_backward(lane) == (kind != ActionKind::kForward);
  }

  void add_lanes();
  void add_programs();
  void add_program(int stage, ActionKind kind);
  std::vector<TensorEvent> tensor_events(int stage, ActionKind kind) const;
  std::vector<int> stages_before(int stage, ActionKind kind) const;
  void reset(const Schedule& schedule);
  bool is_complete() const;
  void score(Outcome& outcome) const;
  bool begin(const Action& action, const Program& program) const;
  void end(const Action& action, const Program& program, double time);
  void wake_receiver(int lane);
  double ready_to_move(int lane, std::size_t microbatch);
  void move(int lane, std::size_t microbatch);
  void queue_transfer(int lane);
  void move_in_turn();
  enum class Progress : unsigned char { kDone, kBlocked, kImpossible, kTooSlow };
  Progress run(const Schedule& schedule, std::size_t actor, double longest);
  void sweep_activations(const Schedule& schedule, Outcome& outcome);
  void sweep_tensors(const Schedule& schedule, Outcome& outcome);
  void note_peak(std::size_t actor, double peak, Outcome& outcome) const;

  const SearchRequest& request_;
  const std::size_t microbatches_;
  std::vector<Lane> lanes_;  ///< Two per edge: activations, gradients.
  std::vector<Event> events_;
  std::vector<Program> programs_;
  std::vector<double> reduce_;  ///< Reduction time after an actor's last action, by actor.
  double optimizer_ = 0;
  std::vector<double> work_of_stages_;  ///< Work by actor, without the overhead per action.
  bool holds_tensors_ = false;
  bool takes_turns_ = false;  ///< True if interfaces serve one transfer at a time.

  std::vector<Stage> stages_;
  std::vector<Cursor> cursors_;
  std::vector<std::size_t> first_;  ///< First index into played_, by actor.
  std::vector<Played> played_;
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> queue_;  ///< Actors that may continue.
  std::vector<Interface> out_, in_;
  std::vector<Turn> turns_;             ///< Min-heap of pending transfers by time.
  std::vector<MemoryTimeline> memory_;  ///< Memory sweeps by actor.
};

}  // namespace weft::mesh

#pragma once

#include <compare>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "mesh/search/search.h"

namespace weft::mesh {

/// What simulate() says of a schedule's time and memory, for many orders of the same actions: all
/// that does not depend on the order is worked out once, and nothing is allocated while playing.
/// Made for F, I, W and B whose microbatches are in order on every stage. One thread at a time.
///
/// An action is a list of events with time between them: it waits for a tensor, or makes one. A
/// transfer is worked out when its tensor is waited for: the tensors of an edge are waited for in
/// the order in which they are made, so what it depends on is known by then. Where interfaces serve
/// in turn, transfers are worked out in the order of time instead, and whoever waits goes on then:
/// all that it makes comes later.
class SearchEvaluator {
 public:
  /// False where interfaces are shared fairly, compounds run as one, there are vocabulary passes,
  /// or an action can be held up by its sends: these need simulate().
  static bool knows(const SearchRequest& request);

  /// Borrows the request; knows() it.
  explicit SearchEvaluator(const SearchRequest& request);

  struct Outcome {
    bool finishes = false;
    bool too_slow = false;  ///< Given up, as the step would have taken longer than asked for.
    bool fits = false;
    double step = 0, makespan = 0, mean_end = 0;
    double peak = 0;  ///< 0 if no memory cap was given and `with_peak` not asked for.
  };
  Outcome play(const Schedule& schedule,
               double longest_step = std::numeric_limits<double>::infinity(),
               bool with_peak = false);

  /// Of the schedule that play() has just finished: start and end of an actor's action, ...
  std::pair<double, double> span(std::size_t actor, std::size_t index) const {
    const Played& one = played_[first_[actor] + index];
    return {one.start, one.end};
  }
  /// ... and the actions on the longest chain that begin when the one before them on their actor
  /// ends.
  std::vector<std::pair<int, int>> held_up_by_order(const Schedule& schedule) const;

 private:
  struct Event {
    double before = 0;  ///< So long the action goes on before it.
    int lane = 0;
    bool makes = false;
  };
  /// Of a stage and a kind.
  struct Program {
    /// Events; those before `start` are over before the action begins.
    std::size_t first = 0, start = 0, past = 0;
    double rest = 0;  ///< After the last event.
    /// On the same actor: these must have made what it needs.
    std::vector<int> stages_before;
  };
  /// At `position` within an action a tensor is made, or needed.
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
    std::size_t out = 0, in = 0;  ///< Interfaces; the same where it needs none.
    std::size_t made = 0;         ///< Tensors.
    std::size_t moved = 0;        ///< Transfers that were worked out.
    std::size_t used = 0;         ///< Tensors whose user is over.
    bool queued = false;          ///< The next one waits for its turn.
    double free_at = 0;
  };
  enum class HeldUp : unsigned char { kByMaking, kByLane, kByCredit, kByInterface };
  struct Tensor {
    double made = 0, start = 0, end = 0;
    double used = 0;  ///< The end of the action that waits for it.
    HeldUp held_up = HeldUp::kByMaking;
    int after = -1;  ///< The place in tensors_ of what the interface carried before.
  };
  struct Interface {
    double free_at = 0;
    int last = -1;  ///< Place in tensors_.
  };
  struct Turn {
    double ready = 0;
    int lane = 0;
    friend auto operator<=>(const Turn&, const Turn&) = default;
  };
  struct Played {
    double start = 0, end = 0;
    int lane = -1;  ///< Whose tensor it waited for last, or -1: only for its actor.
  };
  struct Stage {
    std::size_t forwards = 0, inputs = 0, weights = 0;  ///< Done.
  };
  struct Cursor {
    std::size_t index = 0;
    std::size_t event = 0;
    bool begun = false;
    bool queued = false;
    int blocked_on = -1;  ///< Lane.
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

  /// Lanes lie in pairs: the activations of an edge, then their gradients.
  static bool is_backward(std::size_t lane) { return lane % 2 == 1; }
  /// Whether actions of that kind make or use the lane's tensors.
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
  std::vector<double> reduce_;  ///< By actor, after its last action.
  double optimizer_ = 0;
  std::vector<double> work_of_stages_;  ///< By actor, without what is lost per action.
  bool holds_tensors_ = false;
  bool takes_turns_ = false;  ///< At interfaces.

  std::vector<Stage> stages_;
  std::vector<Cursor> cursors_;
  std::vector<std::size_t> first_;  ///< By actor: its first place in played_.
  std::vector<Played> played_;
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> queue_;  ///< Actors that may go on.
  std::vector<Interface> out_, in_;
  std::vector<Turn> turns_;          ///< A heap, the earliest first.
  std::vector<MemorySweep> memory_;  ///< By actor.
};

}  // namespace weft::mesh

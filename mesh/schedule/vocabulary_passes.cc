// Adds vocabulary passes to a schedule by list scheduling. (Yeung et al., "Balancing Pipeline
// Parallelism with Vocabulary Parallelism", 2024, sections 4 and 5, have a rule for each schedule
// instead.)
#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "mesh/schedule/action_graph.h"
#include "mesh/schedule/internal/generators.h"
#include "mesh/schedule/vocabulary.h"

namespace weft::mesh {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// Moves every stage's forward j to the place of forward j - `ahead`; forwards 0 to `ahead` stand
/// at the place of forward 0. Dependencies stay satisfied.
///
///   F0 F1 B0 F2 B1 B2   ahead 1:   F0 F1 F2 B0 B1 B2
Schedule with_forwards_ahead(Schedule schedule, int ahead) {
  for (std::vector<Action>& actions : schedule.actors) {
    std::vector<Action> moved;
    bool partner_left = true;
    for (Action action : actions) {
      action.joins_previous = action.joins_previous && partner_left;
      partner_left = true;
      if (action.kind != ActionKind::kForward) {
        moved.push_back(action);
        continue;
      }
      const int first = action.microbatch == 0 ? 0 : action.microbatch + ahead;
      const int last = std::min(action.microbatch + ahead, schedule.microbatches - 1);
      partner_left = first <= last;
      for (int microbatch = first; microbatch <= last; ++microbatch) {
        action.microbatch = microbatch;
        moved.push_back(action);
        action.joins_previous = false;
      }
    }
    actions = std::move(moved);
  }
  return schedule;
}

/// Simulates the schedule. Each actor that is free runs a pass or its next action.
class PassScheduler {
 public:
  PassScheduler(const Schedule& base, VocabularyMode mode, const VocabularyTimes& times)
      : base_(base),
        graph_(base, edges_),
        times_(times),
        transfer_(std::max(times.transfer, times.min_transfer)),
        vocabulary_transfer_(std::max(times.vocabulary_transfer, times.min_transfer)),
        chunks_(static_cast<double>(base.stages) / static_cast<double>(base.actors.size())),
        result_(base) {
    for (const std::vector<Action>& actions : base.actors) {
      training_ = training_ || std::ranges::any_of(actions, [](const Action& action) {
                    return action.kind != ActionKind::kForward;
                  });
    }
    const std::size_t actors = base.actors.size();
    end_.assign(graph_.size(), kUnknown);
    for (Exchange* exchange : {&scores_, &grads_, &inputs_})
      exchange->assign(base.microbatches, {actors, 0});
    for (std::size_t actor = 0; actor < actors; ++actor) {
      result_.actors[actor].clear();
      ActorState& own = actors_.emplace_back();
      own.next = graph_.first(actor);
      own.pass_stage = std::ranges::find(base.actor_of_stage, actor) - base.actor_of_stage.begin();
    }
    result_.vocabulary_barriers = training_ ? vocabulary_barriers(mode) : 0;
  }

  Schedule run() {
    for (std::size_t actor = 0; actor < actors_.size(); ++actor) wake(0, actor);
    while (!wakes_.empty()) {
      const auto [time, actor] = wakes_.top();
      wakes_.pop();
      if (actor == actors_.size()) {
        for (std::size_t each = 0; each < actors_.size(); ++each) {
          if (actors_[each].idle) act(each, time);
        }
      } else if (actors_[actor].free_at <= time) {
        act(actor, time);
      }
    }
    for (std::size_t actor = 0; actor < actors_.size(); ++actor) {
      if (is_over(actor)) continue;
      throw_error(
          ErrorCode::kInvalidArgument,
          "schedule '{}' deadlocks with vocabulary passes; check its order with `weft schedule`",
          base_.name);
    }
    return std::move(result_);
  }

 private:
  /// Number of a microbatch's passes that have not run yet, over all actors, and the end of the
  /// last one.
  struct PassProgress {
    std::size_t left = 0;
    double end = 0;
  };
  using Exchange = std::vector<PassProgress>;
  struct ActorState {
    int next = 0;        ///< Next node of the base schedule.
    int pass_stage = 0;  ///< Stage whose number its passes carry.
    double free_at = 0;
    bool idle = true;
    /// Passes started, in microbatch order.
    int inputs = 0, scores = 0, grads = 0, input_grads = 0;
    std::optional<ActionKind> last;
  };

  int microbatches() const { return base_.microbatches; }

  bool is_over(std::size_t actor) const {
    const ActorState& own = actors_[actor];
    const int backwards = training_ ? microbatches() : 0;
    return own.next == graph_.first(actor + 1) && own.inputs == microbatches() &&
           own.scores == microbatches() && own.grads == backwards && own.input_grads == backwards;
  }

  double duration(ActionKind kind) const { return times_.of(kind, chunks_) / chunks_; }

  // Arrival times; kUnknown until they are determined.

  double arrival(const Exchange& exchange, int microbatch) const {
    const PassProgress& all = exchange[microbatch];
    return all.left == 0 ? all.end + vocabulary_transfer_ : kUnknown;
  }
  double base_end(ActionKind kind, int stage, int microbatch) const {
    const std::optional<int> node = graph_.find(kind, stage, microbatch);
    return node ? end_[*node] : kUnknown;
  }
  double scores_ready(int microbatch) const {
    return base_end(ActionKind::kForward, base_.stages - 1, microbatch) + vocabulary_transfer_;
  }
  double base_ready(const ActorState& own, int node) const {
    double ready = 0;
    for (const ActionGraph::ActionDependency& need : graph_.needs(node)) {
      const bool moves = graph_.actor(need.node) != graph_.actor(node);
      ready = std::max(ready, end_[need.node] + (moves ? transfer_ : 0));
    }
    const Action& action = graph_.action(node);
    // REDUCE_GRAD and OPT also follow the gradients of the vocabulary passes.
    if (!has_microbatch(action.kind) && action.stage == own.pass_stage &&
        (own.grads < microbatches() || own.input_grads < microbatches()))
      return kUnknown;
    if (action.kind == ActionKind::kForward && action.stage == 0)
      ready = std::max(ready, arrival(inputs_, action.microbatch));
    if (gives_input_grad(action.kind) && action.stage == base_.stages - 1)
      ready = std::max(
          ready, arrival(result_.vocabulary_barriers == 1 ? scores_ : grads_, action.microbatch));
    return ready;
  }
  /// Returns whether IF is due: it runs two microbatches ahead.
  bool input_due(int microbatch, double time) const {
    constexpr int kAhead = 2;
    if (microbatch < kAhead) return true;
    const double end = base_end(ActionKind::kForward, 0, microbatch - kAhead);
    return end - duration(ActionKind::kForward) <= time + kSlack;
  }

  /// Returns the action that a free actor runs now, if any.
  std::optional<Action> choose(std::size_t actor, double time) {
    const ActorState& own = actors_[actor];
    const bool base_left = own.next < graph_.first(actor + 1);
    const double base_at = base_left ? base_ready(own, own.next) : kUnknown;
    // Keep compounds together if possible.
    if (base_left && base_at <= time + kSlack && graph_.action(own.next).joins_previous &&
        own.last && !is_vocabulary_pass(*own.last)) {
      return graph_.action(own.next);
    }
    if (const std::optional<Action> pass = due_pass(own, time)) return pass;
    if (base_left && base_at <= time + kSlack) return graph_.action(own.next);
    return training_ ? pass_for_idle_time(own, time, base_at) : std::nullopt;
  }

  Action pass_of(const ActorState& own, ActionKind kind, int microbatch) const {
    return {own.pass_stage, kind, microbatch};
  }

  std::optional<Action> due_pass(const ActorState& own, double time) const {
    if (own.inputs < microbatches() && input_due(own.inputs, time))
      return pass_of(own, ActionKind::kInputForward, own.inputs);
    const bool grads_open = training_ && own.grads < own.scores;
    const bool grads_ready = grads_open && arrival(scores_, own.grads) <= time + kSlack;
    if (own.scores < microbatches() && scores_ready(own.scores) <= time + kSlack) {
      if (grads_ready) return pass_of(own, ActionKind::kVocabularyGrads, own.grads);
      if (!grads_open) return pass_of(own, ActionKind::kVocabularyScores, own.scores);
    }
    const bool nothing_follows = own.scores == microbatches() && result_.vocabulary_barriers == 2;
    if (grads_ready && nothing_follows)
      return pass_of(own, ActionKind::kVocabularyGrads, own.grads);
    if (training_ && own.input_grads < microbatches() &&
        base_end(ActionKind::kInputGrad, 0, own.input_grads) + times_.interval() <= time + kSlack) {
      return pass_of(own, ActionKind::kInputBackward, own.input_grads);
    }
    return std::nullopt;
  }

  /// Returns a pass that fits into the idle time until `until`, if any.
  std::optional<Action> pass_for_idle_time(const ActorState& own, double time, double until) const {
    if (own.grads < own.scores && arrival(scores_, own.grads) <= time + kSlack &&
        time + times_.grads <= until + kSlack) {
      return pass_of(own, ActionKind::kVocabularyGrads, own.grads);
    }
    if (own.input_grads < microbatches() &&
        base_end(ActionKind::kInputGrad, 0, own.input_grads) + vocabulary_transfer_ <=
            time + kSlack &&
        time + times_.input <= until + kSlack) {
      return pass_of(own, ActionKind::kInputBackward, own.input_grads);
    }
    return std::nullopt;
  }

  void act(std::size_t actor, double time) {
    const std::optional<Action> action = choose(actor, time);
    ActorState& own = actors_[actor];
    own.idle = !action;
    if (!action) return;
    const double end = time + duration(action->kind);
    own.free_at = end;
    Action placed = *action;
    // A pass between the members of a compound splits it.
    placed.joins_previous = placed.joins_previous && own.last && !is_vocabulary_pass(*own.last);
    result_.actors[actor].push_back(placed);
    own.last = action->kind;
    switch (action->kind) {
      case ActionKind::kInputForward: pass_ends(inputs_, own.inputs++, end); break;
      case ActionKind::kVocabularyScores: pass_ends(scores_, own.scores++, end); break;
      case ActionKind::kVocabularyGrads: pass_ends(grads_, own.grads++, end); break;
      case ActionKind::kInputBackward: ++own.input_grads; break;
      default: end_[own.next++] = end; break;
    }
    wake(end, actor);
    // Wake idle actors when the action ends, when its result has arrived, and one interval later;
    // and when stage 0's forward begins.
    for (const double later : {0.0, transfer_, vocabulary_transfer_, times_.interval()})
      wake(end + later, actors_.size());
    if (action->kind == ActionKind::kForward && action->stage == 0) wake(time, actors_.size());
  }

  void pass_ends(Exchange& exchange, int microbatch, double end) {
    PassProgress& all = exchange[microbatch];
    --all.left;
    all.end = std::max(all.end, end);
  }

  /// Schedules a wake-up of an actor, or of all idle actors if `actor` is the number of actors.
  void wake(double time, std::size_t actor) { wakes_.push({time, actor}); }

  static constexpr double kSlack = 1e-9;

  const Schedule& base_;
  const std::vector<StageEdge> edges_ = chain_edges(base_.stages);
  ActionGraph graph_;
  const VocabularyTimes times_;
  const double transfer_, vocabulary_transfer_;
  const double chunks_;  ///< Stages per actor.
  Schedule result_;
  bool training_ = false;
  std::vector<double> end_;  ///< End of each action, by node.
  std::vector<ActorState> actors_;
  Exchange scores_, grads_, inputs_;  ///< Progress by microbatch.
  using Wake = std::pair<double, std::size_t>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
};

}  // namespace

void throw_single_actor(std::string_view schedule) {
  throw_error(
      ErrorCode::kInvalidArgument,
      "schedule '{}' has one actor: a vocabulary is split over at least two pipeline stages "
      "on different actors; leave it on the 'last' one",
      schedule);
}

Schedule with_vocabulary(Schedule schedule, VocabularyMode mode, const VocabularyTimes& times) {
  if (mode == VocabularyMode::kLast) return schedule;
  if (schedule.actors.size() < 2) throw_single_actor(schedule.name);
  if (mode == VocabularyMode::kInterlaced) {
    throw_error(
        ErrorCode::kInvalidArgument,
        "schedule '{}' cannot be interlaced by putting passes in; ask for the schedule 1f1b "
        "with an interlaced vocabulary, or take vocab-1 or vocab-2",
        schedule.name);
  }
  for (const std::vector<Action>& actions : schedule.actors) {
    for (const Action& action : actions) {
      if (!is_vocabulary_pass(action.kind)) continue;
      throw_error(ErrorCode::kInvalidArgument, "schedule '{}' has vocabulary passes: {}",
                  schedule.name, to_string(action));
    }
  }
  const Schedule base = with_forwards_ahead(std::move(schedule), vocabulary_barriers(mode));
  return PassScheduler(base, mode, times).run();
}

}  // namespace weft::mesh

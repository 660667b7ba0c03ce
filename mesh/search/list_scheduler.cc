#include "mesh/search/internal/list_scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>

namespace weft::mesh {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

class ListScheduler {
 public:
  ListScheduler(const SearchRequest& request, const ListPolicy& policy)
      : request_(request), policy_(policy), microbatches_(request.microbatches) {
    const std::size_t stages = request.actor_of_stage.size();
    schedule_.stages = stages;
    schedule_.microbatches = request.microbatches;
    schedule_.actor_of_stage = request.actor_of_stage;
    schedule_.actors.resize(num_actors(request.actor_of_stage));
    actors_.resize(schedule_.actors.size());
    stages_.resize(stages);
    for (std::size_t s = 0; s < stages; ++s) {
      actors_[request.actor_of_stage[s]].stages.push_back(s);
      stages_[s].forward_ready.assign(microbatches_, 0);
      stages_[s].input_ready.assign(microbatches_, 0);
      stages_[s].missing_forward.assign(microbatches_, 0);
      stages_[s].missing_input.assign(microbatches_, 0);
    }
    for (int s = 0; s < schedule_.stages; ++s) {
      for (const ActionKind kind :
           {ActionKind::kForward, ActionKind::kInputGrad, ActionKind::kWeightGrad}) {
        seconds_.push_back(duration(request.costs, {s, kind, 0}));
      }
    }
    for (const EdgeCosts& edge : request.costs.edges) {
      for (const bool backward : {false, true}) add_lane(edge, backward);
    }
    for (std::size_t e = 0; e < request.costs.edges.size(); ++e) {
      const EdgeCosts& edge = request.costs.edges[e];
      const std::size_t from = edge.edge.from, to = edge.edge.to;
      stages_[from].leaving.push_back(e);
      stages_[to].coming.push_back(e);
      for (int& count : stages_[to].missing_forward) ++count;
      for (int& count : stages_[from].missing_input) ++count;
    }
    // The input gradient also depends on the stage's own forward.
    for (Stage& stage : stages_) {
      for (int& count : stage.missing_input) ++count;
    }
    for (std::size_t s = 0; s < stages; ++s) stages_[s].limit = policy.in_flight[s];
  }

  std::optional<Schedule> run() {
    std::size_t left = 3 * stages_.size() * microbatches_;
    for (std::size_t a = 0; a < actors_.size(); ++a) wake(0, a);
    while (!queue_.empty() && left > 0) {
      const auto [time, actor] = queue_.top();
      queue_.pop();
      Actor& own = actors_[actor];
      if (time < own.free_at) continue;
      const std::optional<Action> action = choose(actor, time);
      if (!action) continue;
      start(*action, actor, time);
      --left;
    }
    if (left > 0) return std::nullopt;
    schedule_.name = "auto";
    return std::move(schedule_);
  }

 private:
  struct Stage {
    /// Time at which all inputs of a microbatch are ready; final once none is missing.
    std::vector<double> forward_ready, input_ready;
    std::vector<int> missing_forward, missing_input;
    std::size_t forwards = 0, inputs = 0, weights = 0;  ///< Actions started.
    std::size_t limit = 0;                              ///< Most microbatches between F and I.
    std::vector<std::size_t> leaving, coming;           ///< Outgoing and incoming edges.
  };
  struct Actor {
    std::vector<int> stages;
    double free_at = 0;
    double held = 0;
  };

  /// Next action of a stage, with its start in the pattern and the time at which it is ready.
  struct Next {
    double due = 0, ready = 0;
    Action action;
  };

  struct TensorLane {
    std::size_t receiver = 0;  ///< Receiving stage.
    std::size_t actor = 0;
    /// False for tensors that only order actions: absent in this direction, local, or needed only
    /// by W.
    bool holds_up = false;
    double seconds = 0;
    /// Time between the completion of the tensor and the end of its action.
    double made_before = 0;
    /// Time from the begin of the consuming action until it needs the tensor.
    double needed_after = 0;
    double free_at = 0;
  };

  void add_lane(const EdgeCosts& edge, bool backward) {
    const std::size_t from = backward ? edge.edge.to : edge.edge.from;
    const TensorTiming& timing = backward ? edge.backward_timing : edge.forward_timing;
    TensorLane lane;
    lane.receiver = backward ? edge.edge.from : edge.edge.to;
    lane.actor = request_.actor_of_stage[lane.receiver];
    lane.holds_up = static_cast<int>(lane.actor) != request_.actor_of_stage[from] &&
                    timing.exists && !timing.for_weights_only;
    lane.seconds = backward ? edge.backward : edge.forward;
    lane.made_before = (1 - timing.produced_at) * seconds_[3 * from + (backward ? 1 : 0)];
    lane.needed_after = timing.needed_at * seconds_[3 * lane.receiver + (backward ? 1 : 0)];
    lanes_.push_back(lane);
  }

  double seconds(const Action& action) const {
    const std::size_t pass = action.kind == ActionKind::kForward     ? 0
                             : action.kind == ActionKind::kInputGrad ? 1
                                                                     : 2;
    return seconds_[3 * static_cast<std::size_t>(action.stage) + pass];
  }

  const StageCosts& costs(int stage) const { return request_.costs.stages[stage]; }
  Stage& stage(int index) { return stages_[index]; }

  void wake(double time, std::size_t actor) { queue_.push({time, actor}); }

  /// Returns whether memory suffices for a forward of the stage, plus one of each later stage of
  /// its actor that holds none. Otherwise early stages could take the memory that later stages need
  /// before they can free any.
  bool has_memory(int s) const {
    if (request_.memory_of_actor.empty()) return true;
    const std::size_t actor = request_.actor_of_stage[s];
    double needed = actors_[actor].held + costs(s).activations;
    for (const int later : actors_[actor].stages) {
      const Stage& other = stages_[later];
      if (later > s && other.forwards == other.weights && other.forwards < microbatches_)
        needed += costs(later).activations;
    }
    return needed <= request_.memory_of_actor[actor] * (1 + 1e-9);
  }

  bool forward_allowed(int s) {
    const Stage& one = stage(s);
    return one.forwards < microbatches_ && one.forwards - one.inputs < one.limit && has_memory(s);
  }

  static double ready_at(const std::vector<double>& ready, const std::vector<int>& missing,
                         std::size_t microbatch) {
    return missing[microbatch] == 0 ? ready[microbatch] : kUnknown;
  }

  /// Returns the first ready action of the pattern, unless it would delay an earlier one.
  std::optional<Action> choose_by_pattern(std::size_t actor, double time) {
    next_.clear();
    const auto add = [&](int s, std::size_t pass, ActionKind kind, std::size_t microbatch,
                         double ready) {
      const double due = policy_.pattern->starts[s][pass] + microbatch * policy_.pattern->period;
      next_.push_back({due, ready, {s, kind, static_cast<int>(microbatch)}});
    };
    for (const int s : actors_[actor].stages) {
      const Stage& one = stage(s);
      if (forward_allowed(s)) {
        add(s, 0, ActionKind::kForward, one.forwards,
            ready_at(one.forward_ready, one.missing_forward, one.forwards));
      }
      if (one.inputs < microbatches_) {
        add(s, 1, ActionKind::kInputGrad, one.inputs,
            ready_at(one.input_ready, one.missing_input, one.inputs));
      }
      if (one.weights < one.inputs) add(s, 2, ActionKind::kWeightGrad, one.weights, time);
    }
    const Next* best = nullptr;
    for (const Next& one : next_) {
      if (one.ready <= time && (best == nullptr || one.due < best->due)) best = &one;
    }
    if (best == nullptr) return std::nullopt;
    if (policy_.weights[actor] == ListPolicy::Weights::kImmediately) return best->action;
    const double end = time + seconds(best->action);
    const bool holds_up = std::ranges::any_of(next_, [&](const Next& other) {
      return other.due < best->due && other.ready > time &&
             other.ready < end - 1e-9 * policy_.pattern->period;
    });
    // The awaited input wakes the actor.
    return holds_up ? std::nullopt : std::optional(best->action);
  }

  /// Actions that an actor could start now, the best of each kind.
  struct ReadyActions {
    std::optional<Action> forward, input, weight;
    double next = kUnknown;  ///< Earliest time at which an F or I will be ready.
  };

  /// Adds a stage's candidates. Call in ascending order of stages.
  void add_candidates(int s, double time, ReadyActions& best) {
    const Stage& one = stage(s);
    if (forward_allowed(s)) {
      const double ready = ready_at(one.forward_ready, one.missing_forward, one.forwards);
      best.next = std::min(best.next, ready);
      if (ready <= time && (!best.forward || policy_.deep_first)) {
        best.forward = Action{s, ActionKind::kForward, static_cast<int>(one.forwards)};
      }
    }
    if (one.inputs < microbatches_) {
      const double ready = ready_at(one.input_ready, one.missing_input, one.inputs);
      best.next = std::min(best.next, ready);
      // Prefer the gradient of the later stage, on which more actions depend.
      if (ready <= time)
        best.input = Action{s, ActionKind::kInputGrad, static_cast<int>(one.inputs)};
    }
    if (one.weights < one.inputs && (!best.weight || has_more_weights(s, best.weight->stage))) {
      best.weight = Action{s, ActionKind::kWeightGrad, static_cast<int>(one.weights)};
    }
  }

  /// Returns whether more W are pending on stage `s` than on `other`.
  bool has_more_weights(int s, int other) {
    const Stage &one = stage(s), &two = stage(other);
    return one.inputs - one.weights > two.inputs - two.weights;
  }

  std::optional<Action> choose(std::size_t actor, double time) {
    if (policy_.pattern) return choose_by_pattern(actor, time);
    const Actor& own = actors_[actor];
    const ListPolicy::Weights weights = policy_.weights[actor];
    ReadyActions best;
    for (const int s : own.stages) add_candidates(s, time, best);
    if (best.weight && weights == ListPolicy::Weights::kImmediately) return best.weight;
    if (policy_.forward_first && best.forward) return best.forward;
    if (best.input) return best.input;
    if (best.forward) return best.forward;
    if (!best.weight) return std::nullopt;
    const bool gap = best.next >= time + costs(best.weight->stage).weight_grad;
    if (weights == ListPolicy::Weights::kLast || gap || memory_short(own)) return best.weight;
    return std::nullopt;  // The next ready action wakes the actor.
  }

  /// Returns whether a forward lacks memory.
  bool memory_short(const Actor& own) {
    return std::ranges::any_of(
        own.stages, [&](int s) { return stage(s).forwards < microbatches_ && !has_memory(s); });
  }

  void start(const Action& action, std::size_t actor, double time) {
    Stage& one = stage(action.stage);
    Actor& own = actors_[actor];
    const double end = time + seconds(action);
    own.free_at = end;
    schedule_.actors[actor].push_back(action);
    const std::size_t microbatch = action.microbatch;
    switch (action.kind) {
      case ActionKind::kForward:
        ++one.forwards;
        own.held += costs(action.stage).activations;
        provide(one.input_ready, one.missing_input, microbatch, end, actor);
        deliver(action, end);
        break;
      case ActionKind::kInputGrad:
        ++one.inputs;
        own.held -= costs(action.stage).activations - costs(action.stage).for_weight_grad;
        deliver(action, end);
        break;
      default:
        ++one.weights;
        own.held -= costs(action.stage).for_weight_grad;
        break;
    }
    wake(end, actor);
  }

  void provide(std::vector<double>& ready, std::vector<int>& missing, std::size_t microbatch,
               double time, std::size_t actor) {
    ready[microbatch] = std::max(ready[microbatch], time);
    if (--missing[microbatch] == 0) wake(ready[microbatch], actor);
  }

  void deliver(const Action& action, double end) {
    const bool forward = action.kind == ActionKind::kForward;
    const std::size_t microbatch = action.microbatch;
    for (const std::size_t e : forward ? stage(action.stage).leaving : stage(action.stage).coming) {
      TensorLane& lane = lanes_[2 * e + (forward ? 0 : 1)];
      double arrival = end;
      if (lane.holds_up) {
        lane.free_at = std::max(lane.free_at, end - lane.made_before) + lane.seconds;
        arrival = lane.free_at - lane.needed_after;
      }
      Stage& next = stages_[lane.receiver];
      if (forward)
        provide(next.forward_ready, next.missing_forward, microbatch, arrival, lane.actor);
      else provide(next.input_ready, next.missing_input, microbatch, arrival, lane.actor);
    }
  }

  const SearchRequest& request_;
  const ListPolicy& policy_;
  const std::size_t microbatches_;
  Schedule schedule_;
  std::vector<Stage> stages_;
  std::vector<Actor> actors_;
  std::vector<double> seconds_;    ///< Durations of F, I and W, by stage.
  std::vector<TensorLane> lanes_;  ///< Two per edge: activations, gradients.
  std::vector<Next> next_;         ///< Scratch of choose_by_pattern().
  using Wake = std::pair<double, std::size_t>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> queue_;
};

}  // namespace

ListPolicy uniform_policy(const SearchRequest& request, double fullness,
                          ListPolicy::Weights weights) {
  const std::size_t stages = request.actor_of_stage.size();
  std::vector<double> work(num_actors(request.actor_of_stage), 0);
  for (std::size_t s = 0; s < stages; ++s) {
    const StageCosts& one = request.costs.stages[s];
    work[request.actor_of_stage[s]] += one.forward + one.input_grad + one.weight_grad;
  }
  const double period = *std::ranges::max_element(work);
  ListPolicy policy;
  policy.in_flight.assign(stages, request.microbatches);
  policy.weights.assign(work.size(), weights);
  double way = 0;
  for (std::size_t s = stages; s-- > 0 && fullness > 0 && period > 0;) {
    way += request.costs.stages[s].forward + request.costs.stages[s].input_grad;
    for (const EdgeCosts& edge : request.costs.edges) {
      if (edge.edge.from != static_cast<int>(s) || edge.edge.to != static_cast<int>(s) + 1)
        continue;
      if (request.actor_of_stage[s] != request.actor_of_stage[s + 1])
        way += edge.forward + edge.backward;
    }
    policy.in_flight[s] =
        std::clamp(static_cast<int>(std::ceil(fullness * way / period)), 1, request.microbatches);
  }
  return policy;
}

ListPolicy pattern_policy(const SearchRequest& request, const PeriodicPattern& pattern,
                          double spare_memory_share, ListPolicy::Weights weights) {
  const std::size_t stages = request.actor_of_stage.size();
  ListPolicy policy;
  policy.pattern = pattern;
  policy.weights.assign(num_actors(request.actor_of_stage), weights);
  std::vector<double> held(policy.weights.size(), 0);
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t actor = request.actor_of_stage[s];
    const double life = pattern.starts[s][2] - pattern.starts[s][0];
    held[actor] += std::ceil(life / pattern.period) * request.costs.stages[s].activations;
    const double until_input = pattern.starts[s][1] - pattern.starts[s][0];
    policy.in_flight.push_back(std::clamp(static_cast<int>(std::ceil(until_input / pattern.period)),
                                          1, request.microbatches));
  }
  // Infinite spare memory (no memory limit) times a share of 0 is not a number.
  if (spare_memory_share == 0) return policy;
  std::vector<bool> seen(held.size(), false);
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t actor = request.actor_of_stage[s];
    if (seen[actor]) continue;
    seen[actor] = true;
    const double left = request.memory_of_actor.empty()
                            ? std::numeric_limits<double>::infinity()
                            : request.memory_of_actor[actor] - held[actor];
    const double each = request.costs.stages[s].activations;
    const double extra =
        std::floor(spare_memory_share * std::max(0.0, left) / (each > 0 ? each : 1));
    policy.in_flight[s] =
        static_cast<int>(std::min<double>(policy.in_flight[s] + extra, request.microbatches));
  }
  return policy;
}

std::optional<Schedule> list_schedule(const SearchRequest& request, const ListPolicy& policy) {
  return ListScheduler(request, policy).run();
}

}  // namespace weft::mesh

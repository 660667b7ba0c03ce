// Lower bounds of a step. Every bound considers one actor and ignores the work of the others.
//
//   | F F F |   idle   | I ...
//                      ^ the first microbatch returns
// Until the gradient of its first microbatch returns, the actor can only run forwards, as many as
// memory allows. Later it may be busy all the time.
//
//   ... | F I W F I W F |
//                       | the rest of the last microbatch | I W
// When the last forward begins, all microbatches beyond those that memory holds must be complete,
// and the last one still has to pass all later stages and return.
#include "mesh/search/internal/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace weft::mesh {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Action of a microbatch that is alone in the pipeline. It may begin before all its inputs arrive,
/// and send tensors before its end.
class LoneAction {
 public:
  /// Adds an input that arrives at `time` and is needed `needed_at` seconds into the action.
  void arrive(double time, double needed_at) { arrivals_.emplace_back(time, needed_at); }

  /// Returns the earliest time at which `seconds` of the action have run; kNever if it has no
  /// inputs.
  double reaches(double seconds) const {
    double time = kNever;
    for (const auto& [arrival, needed_at] : arrivals_) {
      if (needed_at <= seconds) time = std::max(time, arrival + seconds - needed_at);
    }
    return time;
  }

 private:
  std::vector<std::pair<double, double>> arrivals_;
};

class Bounds {
 public:
  explicit Bounds(const SearchRequest& request)
      : request_(request),
        costs_(request.costs),
        stages_(request.actor_of_stage.size()),
        into_(stages_),
        out_of_(stages_),
        stages_of_(num_actors(request.actor_of_stage)),
        reduce_(stages_of_.size(), 0) {
    std::vector<double> optimizer(stages_of_.size(), 0);
    for (std::size_t s = 0; s < stages_; ++s) {
      const StageCosts& stage = costs_.stages[s];
      stages_of_[actor_of(s)].push_back(s);
      // As in a B, the overhead per action counts once for I and W.
      forward_.push_back(costs_.dispatch_time + stage.forward);
      input_.push_back(costs_.dispatch_time + (stage.recomputes ? stage.recompute : 0) +
                       stage.input_grad);
      weight_.push_back(stage.weight_grad - stage.hidden);
      reduce_[actor_of(s)] += late_reduction(stage);
      optimizer[actor_of(s)] += stage.optimizer;
    }
    after_all_ = costs_.exchange + *std::ranges::max_element(optimizer);
    for (const EdgeCosts& edge : costs_.edges) {
      // Backward edges do not contribute to the bound.
      if (edge.edge.from >= edge.edge.to) continue;
      into_[edge.edge.to].push_back(&edge);
      out_of_[edge.edge.from].push_back(&edge);
    }
    const std::vector<LoneAction> first = forwards(0, true);
    for (std::size_t s = 0; s < stages_; ++s) {
      begins_.push_back(std::max(0.0, first[s].reaches(0)));
      delayed_begins_.push_back(
          std::max(begins_.back(), first[s].reaches(forward_[s]) - forward_[s]));
    }
  }

  double least_step(bool in_memory) const {
    double least = 0;
    for (std::size_t actor = 0; actor < stages_of_.size(); ++actor)
      least = std::max(least, of_actor(actor, in_memory));
    return least + after_all_;
  }

 private:
  /// Times of a lone microbatch, from the beginning of the stage's forward.
  struct LoneTimes {
    double input_begins = 0;
    double input_ends = 0;
  };

  std::size_t actor_of(std::size_t stage) const { return request_.actor_of_stage[stage]; }

  double forward_seconds(std::size_t s, double part) const {
    return part == 0 ? 0 : costs_.dispatch_time + part * costs_.stages[s].forward;
  }
  /// Returns the seconds of an input gradient until this part of it is done. The overhead per
  /// action follows the wait for inputs that are needed at once, unless a recomputation comes
  /// before.
  double input_seconds(std::size_t s, double part) const {
    const bool at_once = part == 0 && !costs_.stages[s].recomputes;
    return at_once ? 0 : input_[s] - (1 - part) * costs_.stages[s].input_grad;
  }

  /// Returns the forwards of a microbatch that begins at stage `source` and, if `all`, at all
  /// stages without inputs.
  std::vector<LoneAction> forwards(std::size_t source, bool all) const {
    std::vector<LoneAction> alone(stages_);
    for (std::size_t s = source; s < stages_; ++s) {
      if (s == source || (all && into_[s].empty())) alone[s].arrive(0, 0);
      for (const EdgeCosts* edge : into_[s]) {
        const std::size_t from = edge->edge.from;
        const TensorTiming& timing = edge->forward_timing;
        if (actor_of(from) == actor_of(s)) {
          alone[s].arrive(alone[from].reaches(forward_[from]), 0);
        } else if (timing.exists) {
          alone[s].arrive(
              alone[from].reaches(forward_seconds(from, timing.produced_at)) + edge->forward,
              forward_seconds(s, timing.needed_at));
        }
      }
    }
    return alone;
  }

  /// Returns an actor's bound, without the final exchange and optimizer.
  double of_actor(std::size_t actor, bool in_memory) const {
    const std::vector<std::size_t>& own = stages_of_[actor];
    double comes = std::numeric_limits<double>::infinity(), begins = comes, memory = comes,
           work = 0, held = 0;
    // Recomputing stages do not hold activations all the time.
    const bool drops =
        std::ranges::any_of(own, [&](std::size_t s) { return costs_.stages[s].recomputes; });
    if (in_memory && !drops && !request_.memory_of_actor.empty())
      memory = request_.memory_of_actor[actor] * (1 + 1e-9);
    for (const std::size_t s : own) {
      comes = std::min(comes, delayed_begins_[s]);
      begins = std::min(begins, begins_[s]);
      work += request_.microbatches * (forward_[s] + input_[s] + weight_[s]);
      held += costs_.stages[s].activations * lone_times(s).input_ends +
              costs_.stages[s].for_weight_grad * weight_[s];
    }
    if (work <= 0) return 0;
    double least = comes + work + reduce_[actor];
    // Memory times time: the sum over all microbatches is at most what the actor has.
    if (memory > 0) least = std::max(least, begins + request_.microbatches * held / memory);
    if (own.size() == 1) least = std::max(least, begins + of_only_stage(own.front(), memory));
    return least;
  }

  LoneTimes lone_times(std::size_t source) const {
    const std::vector<LoneAction> there = forwards(source, false);
    std::vector<LoneAction> back(stages_);
    for (std::size_t s = stages_; s-- > source;) {
      back[s].arrive(there[s].reaches(forward_[s]), 0);
      for (const EdgeCosts* edge : out_of_[s]) {
        const std::size_t from = edge->edge.to;
        const TensorTiming& timing = edge->backward_timing;
        if (actor_of(from) == actor_of(s)) {
          back[s].arrive(back[from].reaches(input_[from]), 0);
        } else if (timing.exists && !timing.for_weights_only) {
          back[s].arrive(
              back[from].reaches(input_seconds(from, timing.produced_at)) + edge->backward,
              input_seconds(s, timing.needed_at));
        }
      }
    }
    return {back[source].reaches(0), back[source].reaches(input_[source])};
  }

  /// Returns the time from the end of the stage's last input gradient to the end of the step.
  double rest_after(std::size_t source) const {
    std::vector<double> ends(stages_, kNever);
    ends[source] = 0;
    double rest = 0;
    for (std::size_t s = source + 1; s-- > 0;) {
      for (const EdgeCosts* edge : out_of_[s]) {
        const TensorTiming& timing = edge->backward_timing;
        const bool local = actor_of(edge->edge.to) == actor_of(s);
        const bool whole = timing.exists && timing.produced_at == 1 && timing.needed_at == 0 &&
                           !timing.for_weights_only;
        if (!local && !whole) continue;
        const double comes = ends[edge->edge.to] + (local ? 0 : edge->backward);
        if (s != source) ends[s] = std::max(ends[s], comes + costs_.stages[s].input_grad);
      }
      rest = std::max(rest, ends[s] + weight_[s] + reduce_[actor_of(s)]);
    }
    return rest;
  }

  /// Returns the bound from the beginning of the first forward, for an actor with this stage only.
  double of_only_stage(std::size_t s, double memory) const {
    const StageCosts& stage = costs_.stages[s];
    const double forward = forward_[s], backward = input_[s] + weight_[s];
    const double taken = stage.activations, kept = stage.for_weight_grad;
    const LoneTimes lone = lone_times(s);
    const std::size_t microbatches = request_.microbatches;
    std::size_t most = microbatches;  // Most microbatches between F and I.
    if (taken > 0 && memory / taken < microbatches) most = static_cast<std::size_t>(memory / taken);
    if (most < 1) return 0;
    // Activations are held until W ends.
    const bool holds_all = taken > 0 && kept >= taken * (1 - 1e-12);
    const double idle = std::max(0.0, lone.input_begins - most * forward);
    // Returns the most backward work that can remain when one more forward begins after `before`
    // others.
    const auto can_be_left = [&](double before) {
      const double in_flight = std::min(before, static_cast<double>(most) - 1);
      if (holds_all) return in_flight * backward;
      const auto with = [&](double inputs) {
        const double open = std::clamp(inputs, 0.0, in_flight),
                     free = memory - taken - open * taken;
        const double weights =
            kept > 0 ? std::clamp(free / kept, 0.0, before - open) : before - open;
        return open * backward + weights * weight_[s];
      };
      // Linear between these points: no open inputs, the most, and the number that leaves memory
      // for the rest.
      double left = std::max(with(0), with(in_flight));
      if (taken > kept)
        left = std::max(left, with((memory - taken - before * kept) / (taken - kept)));
      return left;
    };
    std::vector<double> begins(microbatches, 0);
    for (std::size_t i = 1; i < microbatches; ++i) {
      const double before = i;
      begins[i] =
          std::max(begins[i - 1] + forward,
                   before * (forward + backward) - can_be_left(before) + (i >= most ? idle : 0));
      if (i >= most)
        begins[i] =
            std::max(begins[i], begins[i - most] + lone.input_ends + (holds_all ? weight_[s] : 0));
    }
    const double all = idle + microbatches * (forward + backward) + reduce_[actor_of(s)];
    return std::max(all, begins.back() + lone.input_ends + rest_after(s));
  }

  const SearchRequest& request_;
  const ScheduleCosts& costs_;
  const std::size_t stages_;
  std::vector<std::vector<const EdgeCosts*>> into_, out_of_;
  std::vector<std::vector<std::size_t>> stages_of_;
  std::vector<double> forward_, input_, weight_;
  std::vector<double> reduce_;  ///< Reduction time by actor.
  std::vector<double> begins_;  ///< Earliest begin of the first forward, by stage.
  /// Earliest end of the first forward, minus its duration, by stage.
  std::vector<double> delayed_begins_;
  double after_all_ = 0;
};

/// Returns whether the bounds hold: compounds that take less than their members' sum break them.
bool is_known(const SearchRequest& request) { return request.costs.compounds.empty(); }

}  // namespace

double lower_bound(const SearchRequest& request) {
  return is_known(request) ? Bounds(request).least_step(false) : 0;
}

double lower_bound_in_memory(const SearchRequest& request) {
  return is_known(request) ? Bounds(request).least_step(true) : 0;
}

}  // namespace weft::mesh

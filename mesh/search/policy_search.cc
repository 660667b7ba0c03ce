#include "mesh/search/internal/policy_search.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <utility>

#include "mesh/search/internal/periodic.h"

namespace weft::mesh {
namespace {

std::optional<ListCandidate> try_policy(const ListPolicy& policy, ScheduleEvaluator& evaluator) {
  std::optional<Schedule> schedule = list_schedule(evaluator.request(), policy);
  if (!schedule) return std::nullopt;
  const ScheduleEvaluator::ScheduleEvaluation evaluation = evaluator.evaluate(*schedule);
  if (!evaluation.finishes || !evaluation.fits) return std::nullopt;
  return ListCandidate{policy, std::move(*schedule), evaluation.score};
}

/// Returns the time of a microbatch that is alone in the pipeline.
double seconds_alone(const SearchRequest& request) {
  double seconds = 0;
  for (std::size_t stage = 0; stage < request.actor_of_stage.size(); ++stage) {
    for (const ActionKind kind :
         {ActionKind::kForward, ActionKind::kInputGrad, ActionKind::kWeightGrad}) {
      seconds += duration(request.costs, {static_cast<int>(stage), kind, 0});
    }
  }
  for (const EdgeCosts& edge : request.costs.edges) seconds += edge.forward + edge.backward;
  return seconds;
}

/// Searches for patterns of given periods, and keeps those whose schedules finish and fit.
class PatternTrials {
 public:
  explicit PatternTrials(ScheduleEvaluator& evaluator) : evaluator_(evaluator) {}

  /// Returns whether a pattern of this period was found and kept.
  bool attempt(double period) {
    const SearchRequest& request = evaluator_.request();
    std::optional<PeriodicPattern> pattern = find_pattern(request, period);
    if (!pattern || !fits_in_memory(request, *pattern)) return false;
    Schedule schedule = unroll(request, *pattern);
    const ScheduleEvaluator::ScheduleEvaluation evaluation = evaluator_.evaluate(schedule);
    if (!evaluation.finishes || !evaluation.fits) return false;
    found_.push_back({std::move(*pattern), evaluation.score});
    unrolled_.push_back(std::move(schedule));
    return true;
  }

  /// Returns approximately the shortest period with a pattern; nothing if there is none up to
  /// `longest`.
  std::optional<double> attempt_from(double shortest, double longest) {
    constexpr double kStep = 1.04;
    constexpr int kRefinements = 5;
    double fits = shortest, too_short = shortest;
    while (!attempt(fits)) {
      too_short = fits;
      fits *= kStep;
      if (fits > longest || evaluator_.exhausted()) return std::nullopt;
    }
    for (int i = 0; i < kRefinements && fits > too_short; ++i) {
      const double middle = (fits + too_short) / 2;
      (attempt(middle) ? fits : too_short) = middle;
    }
    return fits;
  }

  /// Returns list schedules that follow the best patterns.
  std::vector<ListCandidate> list_best() {
    constexpr std::size_t kBest = 2;
    using enum ListPolicy::Weights;
    std::vector<ListCandidate> listed;
    std::ranges::stable_sort(found_, {}, &Found::score);
    for (std::size_t i = 0; i < std::min(found_.size(), kBest); ++i) {
      for (const auto weights : {kInGaps, kImmediately}) {
        for (const double spare_memory_share : {0.5, 1.0}) {
          if (evaluator_.exhausted()) break;
          const ListPolicy policy =
              pattern_policy(evaluator_.request(), found_[i].pattern, spare_memory_share, weights);
          if (std::optional<ListCandidate> one = try_policy(policy, evaluator_))
            listed.push_back(std::move(*one));
        }
      }
    }
    return listed;
  }

  std::vector<Schedule> take_unrolled() { return std::move(unrolled_); }

 private:
  struct Found {
    PeriodicPattern pattern;
    ScheduleScore score;
  };

  ScheduleEvaluator& evaluator_;
  std::vector<Found> found_;
  std::vector<Schedule> unrolled_;
};

/// Changes a policy while that improves its schedule.
class PolicyTuner {
 public:
  PolicyTuner(ListCandidate best, ScheduleEvaluator& evaluator, std::int64_t until)
      : best_(std::move(best)),
        evaluator_(evaluator),
        until_(until),
        most_(evaluator.request().microbatches) {}

  ListCandidate tune() {
    // First change all stages together, as the budget allows few changes of a long schedule.
    repeat_while_better([&] { scale_all_stages(); });
    repeat_while_better([&] {
      change_single_stages();
      change_weight_rules();
    });
    return std::move(best_);
  }

 private:
  template <typename Round>
  void repeat_while_better(Round&& round) {
    do {
      better_ = false;
      round();
    } while (better_);
  }

  void scale_all_stages() {
    for (const double times : {1.06, 0.94, 1.2, 0.8}) {
      try_change([&](ListPolicy& policy) {
        for (int& number : policy.in_flight) {
          const double changed = times > 1 ? std::ceil(number * times) : std::floor(number * times);
          number = std::clamp(static_cast<int>(changed), 1, most_);
        }
      });
    }
  }

  void change_single_stages() {
    for (std::size_t stage = 0; stage < best_.policy.in_flight.size(); ++stage) {
      for (const int by : {-1, 1, -2, 2, 4, -4}) {
        const int now = best_.policy.in_flight[stage];
        if (now + by < 1 || now + by > most_) continue;
        try_change([&](ListPolicy& policy) { policy.in_flight[stage] = now + by; });
        // Earlier stages must run at least as far ahead to supply the microbatches.
        try_change([&](ListPolicy& policy) {
          for (std::size_t before = 0; before <= stage; ++before) {
            policy.in_flight[before] = std::clamp(policy.in_flight[before] + by, 1, most_);
          }
        });
      }
    }
  }

  void change_weight_rules() {
    for (std::size_t actor = 0; actor < best_.policy.weights.size(); ++actor) {
      for (const auto weights : {ListPolicy::Weights::kImmediately, ListPolicy::Weights::kInGaps,
                                 ListPolicy::Weights::kLast}) {
        if (weights != best_.policy.weights[actor])
          try_change([&](ListPolicy& policy) { policy.weights[actor] = weights; });
      }
    }
  }

  template <typename Change>
  void try_change(Change&& change) {
    if (evaluator_.simulated() >= until_) return;
    ListPolicy policy = best_.policy;
    change(policy);
    if (std::optional<ListCandidate> found = try_policy(policy, evaluator_);
        found && found->score < best_.score) {
      best_ = std::move(*found);
      better_ = true;
    }
  }

  ListCandidate best_;
  ScheduleEvaluator& evaluator_;
  const std::int64_t until_;
  const int most_;
  bool better_ = false;
};

}  // namespace

std::int64_t num_actions(std::size_t stages, int microbatches) {
  return 3 * static_cast<std::int64_t>(stages) * microbatches;
}

std::vector<ListCandidate> try_uniform_policies(ScheduleEvaluator& evaluator) {
  struct PolicyChoice {
    double fullness = 1;
    ListPolicy::Weights weights = ListPolicy::Weights::kInGaps;
    bool forward_first = false, deep_first = true;
  };
  using enum ListPolicy::Weights;
  const SearchRequest& request = evaluator.request();
  std::vector<ListCandidate> tried;
  const auto attempt = [&](const PolicyChoice& choice) {
    if (evaluator.exhausted()) return;
    ListPolicy policy = uniform_policy(request, choice.fullness, choice.weights);
    policy.forward_first = choice.forward_first;
    policy.deep_first = choice.deep_first;
    if (std::optional<ListCandidate> found = try_policy(policy, evaluator))
      tried.push_back(std::move(*found));
  };
  // `deep_first` has no effect with one stage per actor.
  std::vector<bool> deep{true};
  if (std::ssize(request.actor_of_stage) > num_actors(request.actor_of_stage)) {
    deep.push_back(false);
  }
  const std::initializer_list<double> fullnesses{1.0, 1.5, 0.0, 1.25, 2.0, 0.75, 3.0, 0.5};
  const std::int64_t all = 6 * fullnesses.size() * deep.size();
  if (all * num_actions(request.actor_of_stage.size(), request.microbatches) <=
      request.budget / 4) {
    for (const double fullness : fullnesses) {
      for (const auto weights : {kInGaps, kLast, kImmediately}) {
        for (const bool forward_first : {false, true}) {
          for (const bool deep_first : deep)
            attempt({fullness, weights, forward_first, deep_first});
        }
      }
    }
  } else {
    PolicyChoice best;
    const auto choose = [&](auto member, const auto& values) {
      std::optional<ScheduleScore> least;
      PolicyChoice chosen = best;
      for (const auto value : values) {
        PolicyChoice choice = best;
        choice.*member = value;
        const std::size_t before = tried.size();
        attempt(choice);
        if (tried.size() == before || (least && !(tried.back().score < *least))) continue;
        least = tried.back().score;
        chosen = choice;
      }
      best = chosen;
    };
    choose(&PolicyChoice::fullness, fullnesses);
    choose(&PolicyChoice::weights,
           std::initializer_list<ListPolicy::Weights>{kInGaps, kLast, kImmediately});
    choose(&PolicyChoice::forward_first, std::initializer_list<bool>{false, true});
    choose(&PolicyChoice::deep_first, deep);
    choose(&PolicyChoice::fullness, fullnesses);
  }
  std::ranges::stable_sort(tried, {}, &ListCandidate::score);
  return tried;
}

PatternCandidates try_patterns(ScheduleEvaluator& evaluator) {
  const SearchRequest& request = evaluator.request();
  const double shortest = shortest_period(request);
  if (shortest <= 0) return {};
  PatternTrials trials(evaluator);
  // The longest period runs one microbatch at a time, without pipelining.
  const std::optional<double> period = trials.attempt_from(shortest, seconds_alone(request));
  if (!period) return {};
  for (const double times : {1.02, 1.05, 1.1, 1.2}) {
    if (!evaluator.exhausted()) trials.attempt(*period * times);
  }
  PatternCandidates result;
  result.listed = trials.list_best();
  result.unrolled = trials.take_unrolled();
  return result;
}

ListCandidate tune_policy(ListCandidate best, ScheduleEvaluator& evaluator, std::int64_t until) {
  return PolicyTuner(std::move(best), evaluator, until).tune();
}

}  // namespace weft::mesh

#include "mesh/search/internal/policy_search.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <utility>

#include "mesh/search/internal/periodic.h"

namespace weft::mesh {
namespace {

std::optional<Listed> try_policy(const ListPolicy& policy, Judge& judge) {
  std::optional<Schedule> schedule = list_schedule(judge.request(), policy);
  if (!schedule) return std::nullopt;
  const Judge::Verdict verdict = judge.judge(*schedule);
  if (!verdict.finishes || !verdict.fits) return std::nullopt;
  return Listed{policy, std::move(*schedule), verdict.score};
}

}  // namespace

std::int64_t num_actions(std::size_t stages, int microbatches) {
  return 3 * static_cast<std::int64_t>(stages) * microbatches;
}

std::vector<Listed> try_uniform_policies(Judge& judge) {
  struct Choice {
    double fullness = 1;
    ListPolicy::Weights weights = ListPolicy::Weights::kInGaps;
    bool forward_first = false, deep_first = true;
  };
  using enum ListPolicy::Weights;
  const SearchRequest& request = judge.request();
  std::vector<Listed> tried;
  const auto attempt = [&](const Choice& choice) {
    if (judge.exhausted()) return;
    ListPolicy policy = uniform_policy(request, choice.fullness, choice.weights);
    policy.forward_first = choice.forward_first;
    policy.deep_first = choice.deep_first;
    if (std::optional<Listed> found = try_policy(policy, judge)) tried.push_back(std::move(*found));
  };
  // Where no actor has several stages there is no later one.
  std::vector<bool> deep{true};
  if (static_cast<int>(request.actor_of_stage.size()) >
      *std::ranges::max_element(request.actor_of_stage) + 1) {
    deep.push_back(false);
  }
  const std::initializer_list<double> fullnesses{1.0, 1.5, 0.0, 1.25, 2.0, 0.75, 3.0, 0.5};
  const std::int64_t all = static_cast<std::int64_t>(6 * fullnesses.size() * deep.size());
  if (all * num_actions(request.actor_of_stage.size(), request.microbatches) <=
      request.budget / 4) {
    for (const double fullness : fullnesses) {
      for (const auto weights : {kInGaps, kLast, kAtOnce}) {
        for (const bool forward_first : {false, true}) {
          for (const bool deep_first : deep)
            attempt({fullness, weights, forward_first, deep_first});
        }
      }
    }
  } else {
    Choice best;
    const auto choose = [&](auto member, const auto& values) {
      std::optional<ScheduleScore> least;
      Choice chosen = best;
      for (const auto value : values) {
        Choice choice = best;
        choice.*member = value;
        const std::size_t before = tried.size();
        attempt(choice);
        if (tried.size() == before || (least && !(tried.back().score < *least))) continue;
        least = tried.back().score;
        chosen = choice;
      }
      best = chosen;
    };
    choose(&Choice::fullness, fullnesses);
    choose(&Choice::weights, std::initializer_list<ListPolicy::Weights>{kInGaps, kLast, kAtOnce});
    choose(&Choice::forward_first, std::initializer_list<bool>{false, true});
    choose(&Choice::deep_first, deep);
    choose(&Choice::fullness, fullnesses);
  }
  std::ranges::stable_sort(tried, {}, &Listed::score);
  return tried;
}

Patterned try_patterns(Judge& judge) {
  constexpr double kStep = 1.04;
  constexpr int kRefinements = 5;
  constexpr std::size_t kGoneBy = 2;  // patterns
  using enum ListPolicy::Weights;
  const SearchRequest& request = judge.request();
  const double shortest = shortest_period(request);
  Patterned result;
  if (shortest <= 0) return result;
  struct Found {
    PeriodicPattern pattern;
    ScheduleScore score;
  };
  std::vector<Found> found;
  const auto attempt = [&](double period) {
    std::optional<PeriodicPattern> pattern = find_pattern(request, period);
    if (!pattern || !fits_in_memory(request, *pattern)) return false;
    Schedule schedule = unroll(request, *pattern);
    const Judge::Verdict verdict = judge.judge(schedule);
    if (!verdict.finishes || !verdict.fits) return false;
    found.push_back({std::move(*pattern), verdict.score});
    result.unrolled.push_back(std::move(schedule));
    return true;
  };
  // With one microbatch at a time there is no pipeline.
  double alone = 0;
  for (std::size_t stage = 0; stage < request.actor_of_stage.size(); ++stage) {
    for (const ActionKind kind :
         {ActionKind::kForward, ActionKind::kInputGrad, ActionKind::kWeightGrad}) {
      alone += duration(request.costs, {static_cast<int>(stage), kind, 0});
    }
  }
  for (const EdgeCosts& edge : request.costs.edges) alone += edge.forward + edge.backward;
  double period = shortest, too_short = shortest;
  while (!attempt(period)) {
    too_short = period;
    period *= kStep;
    if (period > alone || judge.exhausted()) return result;
  }
  double fits = period;
  for (int i = 0; i < kRefinements && fits > too_short; ++i) {
    const double middle = (fits + too_short) / 2;
    (attempt(middle) ? fits : too_short) = middle;
  }
  for (const double times : {1.02, 1.05, 1.1, 1.2}) {
    if (!judge.exhausted()) attempt(fits * times);
  }
  std::ranges::stable_sort(found, {}, &Found::score);
  for (std::size_t i = 0; i < std::min(found.size(), kGoneBy); ++i) {
    for (const auto weights : {kInGaps, kAtOnce}) {
      for (const double more : {0.5, 1.0}) {
        if (judge.exhausted()) break;
        const ListPolicy policy = pattern_policy(request, found[i].pattern, more, weights);
        if (std::optional<Listed> listed = try_policy(policy, judge))
          result.listed.push_back(std::move(*listed));
      }
    }
  }
  return result;
}

Listed tune(Listed best, Judge& judge, std::int64_t until) {
  const int most = judge.request().microbatches;
  bool better = true;
  const auto try_change = [&](auto&& change) {
    if (judge.simulated() >= until) return;
    ListPolicy policy = best.policy;
    change(policy);
    if (std::optional<Listed> found = try_policy(policy, judge);
        found && found->score < best.score) {
      best = std::move(*found);
      better = true;
    }
  };
  // All stages together first: of a long schedule not many changes can be tried.
  while (better) {
    better = false;
    for (const double times : {1.06, 0.94, 1.2, 0.8}) {
      try_change([&](ListPolicy& policy) {
        for (int& number : policy.in_flight) {
          const double changed = times > 1 ? std::ceil(number * times) : std::floor(number * times);
          number = std::clamp(static_cast<int>(changed), 1, most);
        }
      });
    }
  }
  for (better = true; better;) {
    better = false;
    for (std::size_t stage = 0; stage < best.policy.in_flight.size(); ++stage) {
      for (const int by : {-1, 1, -2, 2, 4, -4}) {
        const int now = best.policy.in_flight[stage];
        if (now + by < 1 || now + by > most) continue;
        try_change([&](ListPolicy& policy) { policy.in_flight[stage] = now + by; });
        // Stages before it must run at least as far ahead for it to get what it may take.
        try_change([&](ListPolicy& policy) {
          for (std::size_t before = 0; before <= stage; ++before) {
            policy.in_flight[before] = std::clamp(policy.in_flight[before] + by, 1, most);
          }
        });
      }
    }
    for (std::size_t actor = 0; actor < best.policy.weights.size(); ++actor) {
      for (const auto weights : {ListPolicy::Weights::kAtOnce, ListPolicy::Weights::kInGaps,
                                 ListPolicy::Weights::kLast}) {
        if (weights != best.policy.weights[actor])
          try_change([&](ListPolicy& policy) { policy.weights[actor] = weights; });
      }
    }
  }
  return best;
}

}  // namespace weft::mesh

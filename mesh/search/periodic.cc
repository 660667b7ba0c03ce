#include "mesh/search/internal/periodic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

namespace weft::mesh {
namespace {

enum PassIndex : std::size_t { kF = 0, kI = 1, kW = 2 };

constexpr std::array kKindOf{ActionKind::kForward, ActionKind::kInputGrad, ActionKind::kWeightGrad};
constexpr double kUnplaced = -1;

double seconds_of(const SearchRequest& request, std::size_t stage, PassIndex pass) {
  return duration(request.costs, {static_cast<int>(stage), kKindOf[pass], 0});
}

/// Free interval of the period.
struct Gap {
  double from = 0;
  double length = 0;
};

class PatternSearch {
 public:
  PatternSearch(const SearchRequest& request, double period)
      : request_(request),
        period_(period),
        near_(1e-9 * period),
        stages_of_(num_actors(request.actor_of_stage)) {
    for (std::size_t s = 0; s < request.actor_of_stage.size(); ++s) {
      stages_of_[actor_of(s)].push_back(s);
      seconds_.push_back(
          {seconds_of(request, s, kF), seconds_of(request, s, kI), seconds_of(request, s, kW)});
    }
  }

  std::optional<PeriodicPattern> run() {
    const std::size_t stages = seconds_.size();
    std::vector<Starts> beam{Starts(stages, {kUnplaced, kUnplaced, kUnplaced})};
    for (std::size_t s = 0; s < stages; ++s) extend(beam, s, kF);
    for (std::size_t s = stages; s-- > 0;) extend(beam, s, kI);
    // Take the earliest pattern that can place all W.
    for (Starts& starts : beam) {
      if (place_weights(starts)) return PeriodicPattern{period_, std::move(starts)};
    }
    return std::nullopt;
  }

 private:
  using Starts = std::vector<std::array<double, 3>>;
  static constexpr std::size_t kPlaces = 800;  ///< Limit of stages times partial patterns kept.

  std::size_t actor_of(std::size_t stage) const { return request_.actor_of_stage[stage]; }

  /// Returns the earliest begin of microbatch 0's pass by one edge; 0 if the edge does not limit it
  /// or its other end is not placed yet.
  double ready_by(const Starts& starts, const EdgeCosts& edge, std::size_t stage,
                  PassIndex pass) const {
    const bool forward = pass == kF;
    const std::size_t from = forward ? edge.edge.from : edge.edge.to,
                      to = forward ? edge.edge.to : edge.edge.from;
    if (to != stage || starts[from][pass] == kUnplaced) return 0;
    const double end = starts[from][pass] + seconds_[from][pass];
    if (actor_of(from) == actor_of(stage)) return end;
    const TensorTiming& timing = forward ? edge.forward_timing : edge.backward_timing;
    if (!timing.exists || timing.for_weights_only) return 0;
    const StageCosts &other = request_.costs.stages[from], &own = request_.costs.stages[stage];
    const double after = (1 - timing.produced_at) * (forward ? other.forward : other.input_grad);
    const double again = !forward && own.recomputes ? own.recompute : 0;
    const double before = again + timing.needed_at * (forward ? own.forward : own.input_grad);
    return end - after + (forward ? edge.forward : edge.backward) - before;
  }

  /// Returns the earliest begin of microbatch 0's pass by all its dependencies.
  double ready(const Starts& starts, std::size_t stage, PassIndex pass) const {
    if (pass == kW) return starts[stage][kI] + seconds_[stage][kI];
    double time = pass == kI ? starts[stage][kF] + seconds_[stage][kF] : 0;
    for (const EdgeCosts& edge : request_.costs.edges)
      time = std::max(time, ready_by(starts, edge, stage, pass));
    return time;
  }

  double within_period(double time) const {
    const double rest = time - std::floor(time / period_) * period_;
    return rest > period_ - near_ ? 0 : rest;
  }

  /// Returns the durations of the actor's unplaced passes except this one, longest first.
  std::vector<double> left_to_place(const Starts& starts, std::size_t stage, PassIndex pass) const {
    std::vector<double> left;
    for (const std::size_t s : stages_of_[actor_of(stage)]) {
      for (const PassIndex other : {kF, kI, kW}) {
        if (starts[s][other] == kUnplaced && (s != stage || other != pass))
          left.push_back(seconds_[s][other]);
      }
    }
    std::ranges::sort(left, std::greater<>());
    return left;
  }

  std::vector<std::pair<double, double>> busy(const Starts& starts, std::size_t actor) const {
    std::vector<std::pair<double, double>> placed;
    for (const std::size_t s : stages_of_[actor]) {
      for (const PassIndex pass : {kF, kI, kW}) {
        if (starts[s][pass] != kUnplaced && seconds_[s][pass] > near_) {
          placed.emplace_back(within_period(starts[s][pass]), seconds_[s][pass]);
        }
      }
    }
    return placed;
  }

  /// Returns the free intervals; nothing if the busy intervals overlap.
  std::optional<std::vector<Gap>> gaps_between(std::vector<std::pair<double, double>> busy) const {
    if (busy.empty()) return std::vector<Gap>{{0, period_}};
    std::ranges::sort(busy);
    std::vector<Gap> gaps;
    for (std::size_t i = 0; i < busy.size(); ++i) {
      const double end = busy[i].first + busy[i].second;
      const double next = i + 1 < busy.size() ? busy[i + 1].first : busy.front().first + period_;
      if (next < end - near_) return std::nullopt;
      if (next > end + near_) gaps.push_back({end, next - end});
    }
    return gaps;
  }

  /// Returns whether the passes, sorted longest first, fit into the gaps.
  bool pack(std::span<const double> left, std::vector<Gap>& gaps, int& tries) const {
    if (left.empty() || left.front() <= near_) return true;
    if (--tries < 0) return false;
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      const double length = gaps[i].length;
      const auto same = [&](const Gap& other) { return std::abs(other.length - length) <= near_; };
      if (length < left.front() - near_ || std::any_of(gaps.begin(), gaps.begin() + i, same))
        continue;
      gaps[i].length -= left.front();
      const bool fits = pack(left.subspan(1), gaps, tries);
      gaps[i].length = length;
      if (fits) return true;
    }
    return false;
  }

  /// Returns sums of subsets of the passes, 0 first: many of the distinct sums, not all.
  std::vector<double> sums_of(std::span<const double> passes) const {
    constexpr std::size_t kMany = 32;
    std::vector<double> sums{0};
    for (const double one : passes) {
      const std::size_t before = sums.size();
      for (std::size_t i = 0; i < before && before < kMany; ++i) {
        const auto same = [&](double sum) { return std::abs(sum - sums[i] - one) <= near_; };
        if (std::ranges::none_of(sums, same)) sums.push_back(sums[i] + one);
      }
    }
    return sums;
  }

  /// Returns times >= `from` at which a pass of that length leaves one of the sums free before or
  /// after it in a gap.
  std::vector<double> times_in_gaps(double from, double seconds, std::span<const Gap> gaps,
                                    std::span<const double> sums) const {
    std::vector<double> times;
    for (const Gap& gap : gaps) {
      for (const double sum : sums) {
        if (sum + seconds > gap.length + near_) continue;
        for (const double at : {gap.from + sum, gap.from + gap.length - sum - seconds}) {
          const double wait = within_period(at - from);
          times.push_back(from + (wait < near_ ? 0 : wait));
        }
      }
    }
    return times;
  }

  /// Returns the earliest few times at which the pass may begin: at once, or such that the
  /// remaining passes fit before or after it without a gap.
  std::vector<double> places(const Starts& starts, std::size_t stage, PassIndex pass) const {
    constexpr std::size_t kFew = 4;
    const double from = ready(starts, stage, pass), seconds = seconds_[stage][pass];
    if (seconds <= near_) return {from};
    const std::vector<double> left = left_to_place(starts, stage, pass);
    const std::vector<std::pair<double, double>> placed = busy(starts, actor_of(stage));
    const auto gaps = gaps_between(placed);
    if (!gaps) return {};
    std::vector<double> times;
    if (!placed.empty()) times = times_in_gaps(from, seconds, *gaps, sums_of(left));
    times.push_back(from);
    std::ranges::sort(times);
    std::vector<double> found;
    for (const double at : times) {
      if (!found.empty() && at - found.back() <= near_) continue;
      auto with = placed;
      with.emplace_back(within_period(at), seconds);
      auto rest = gaps_between(std::move(with));
      int tries = 300;
      if (rest && pack(left, *rest, tries)) found.push_back(at);
      if (found.size() == kFew) break;
    }
    return found;
  }

  void extend(std::vector<Starts>& beam, std::size_t stage, PassIndex pass) const {
    struct NextStart {
      double start = 0;
      std::size_t from = 0;
    };
    std::vector<NextStart> all;
    for (std::size_t i = 0; i < beam.size(); ++i) {
      for (const double start : places(beam[i], stage, pass)) all.push_back({start, i});
    }
    const std::size_t width = std::clamp<std::size_t>(kPlaces / seconds_.size(), 4, 24);
    std::ranges::stable_sort(all, {}, &NextStart::start);
    if (all.size() > width) all.resize(width);
    std::vector<Starts> longer;
    for (const NextStart& next : all) {
      longer.push_back(beam[next.from]);
      longer.back()[stage][pass] = next.start;
    }
    beam = std::move(longer);
  }

  bool place_weights(Starts& starts) const {
    for (const std::vector<std::size_t>& stages : stages_of_) {
      std::vector<std::size_t> order = stages;
      std::ranges::stable_sort(order, {}, [&](std::size_t s) { return starts[s][kI]; });
      for (const std::size_t s : order) {
        const std::vector<double> found = places(starts, s, kW);
        if (found.empty()) return false;
        starts[s][kW] = found.front();
      }
    }
    return true;
  }

  const SearchRequest& request_;
  const double period_, near_;
  std::vector<std::vector<std::size_t>> stages_of_;  ///< Stages by actor.
  std::vector<std::array<double, 3>> seconds_;
};

}  // namespace

double shortest_period(const SearchRequest& request) {
  std::vector<double> work(num_actors(request.actor_of_stage), 0);
  for (std::size_t s = 0; s < request.actor_of_stage.size(); ++s) {
    for (const PassIndex pass : {kF, kI, kW})
      work[request.actor_of_stage[s]] += seconds_of(request, s, pass);
  }
  double period = *std::ranges::max_element(work);
  for (const EdgeCosts& edge : request.costs.edges) {
    const auto actor = [&](int stage) { return request.actor_of_stage[stage]; };
    if (actor(edge.edge.from) == actor(edge.edge.to)) continue;
    if (edge.forward_timing.exists) period = std::max(period, edge.forward);
    if (edge.backward_timing.exists) period = std::max(period, edge.backward);
  }
  return period;
}

std::optional<PeriodicPattern> find_pattern(const SearchRequest& request, double period) {
  return PatternSearch(request, period).run();
}

bool fits_in_memory(const SearchRequest& request, const PeriodicPattern& pattern) {
  if (request.memory_of_actor.empty()) return true;
  const double near = 1e-9 * pattern.period;
  // Changes within a period, and memory held at its beginning, by actor.
  std::vector<MemoryTimeline> memory(request.memory_of_actor.size());
  std::vector<double> held(request.memory_of_actor.size(), 0);
  for (std::size_t s = 0; s < pattern.starts.size(); ++s) {
    const std::size_t actor = request.actor_of_stage[s];
    const StageCosts& costs = request.costs.stages[s];
    const double taken = pattern.starts[s][kF];
    const auto change = [&](double time, double amount) {
      const double periods = std::floor((time + near) / pattern.period);
      held[actor] -= periods * amount;
      memory[actor].change(std::max(0.0, time - periods * pattern.period), amount);
    };
    change(taken, costs.activations);
    if (costs.recomputes) {
      const double dropped = costs.activations - costs.retained_for_recompute;
      change(taken + seconds_of(request, s, kF) - near, -dropped);
      change(pattern.starts[s][kI], dropped);
    }
    change(pattern.starts[s][kI] + seconds_of(request, s, kI) - near,
           costs.for_weight_grad - costs.activations);
    change(pattern.starts[s][kW] + seconds_of(request, s, kW) - near, -costs.for_weight_grad);
  }
  for (std::size_t actor = 0; actor < held.size(); ++actor) {
    // Account for the microbatches that began in earlier periods.
    memory[actor].change(-pattern.period, held[actor]);
    const double most = memory[actor].peak();
    if (most > request.memory_of_actor[actor] * (1 + 1e-9)) return false;
  }
  return true;
}

Schedule unroll(const SearchRequest& request, const PeriodicPattern& pattern) {
  Schedule schedule;
  schedule.name = "auto";
  schedule.stages = request.actor_of_stage.size();
  schedule.microbatches = request.microbatches;
  schedule.actor_of_stage = request.actor_of_stage;
  schedule.actors.resize(num_actors(request.actor_of_stage));
  struct Timed {
    double start = 0;
    std::size_t pass = 0;
    int depth = 0;  ///< Tie-break for equal starts, as actions may take no time.
    Action action;
  };
  std::vector<std::vector<Timed>> actors(schedule.actors.size());
  for (int s = 0; s < schedule.stages; ++s) {
    std::vector<Timed>& own = actors[request.actor_of_stage[s]];
    for (const PassIndex pass : {kF, kI, kW}) {
      for (int i = 0; i < request.microbatches; ++i) {
        own.push_back({pattern.starts[s][pass] + i * pattern.period,
                       pass,
                       pass == kF ? s : -s,
                       {s, kKindOf[pass], i}});
      }
    }
  }
  for (std::size_t actor = 0; actor < actors.size(); ++actor) {
    std::ranges::sort(actors[actor], {}, [](const Timed& one) {
      return std::tuple(one.start, one.action.microbatch, one.pass, one.depth);
    });
    for (const Timed& one : actors[actor]) schedule.actors[actor].push_back(one.action);
  }
  return schedule;
}

}  // namespace weft::mesh

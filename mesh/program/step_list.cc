#include "mesh/program/step_list.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "mesh/program/internal/lane_player.h"

namespace weft::mesh {
namespace {

/// List scheduler of one graph. Used once.
class StepLister {
 public:
  enum class Idling : std::uint8_t {
    kIfNothingIsReady,
    /// Idling while a step is ready, too, if that one would delay a more urgent one for longer.
    kIfShort,
  };

  /// Whether a step of the network lane that starts while nothing computes has the lane for itself.
  enum class Starts : std::uint8_t { kAtOnce, kAlone };

  /// `urgency`: by step; the highest goes first.
  StepLister(const ListedSteps& graph, const ValueUses& uses, const std::vector<double>& urgency,
             Sharing sharing, Idling idling, Starts starts, double max_bytes)
      : graph_(graph),
        urgency_(urgency),
        idling_(idling),
        starts_(starts),
        max_bytes_(max_bytes),
        player_(graph, uses, sharing) {
    for (std::size_t i = 0; i < graph.steps.size(); ++i)
      if (!graph.steps[i].starts_itself &&
          std::ranges::all_of(graph.steps[i].reads,
                              [&](std::size_t value) { return uses.maker[value] == kNoStep; }))
        ready_.push_back(i);
  }

  /// Makes the order.
  void run() {
    while (!ready_.empty()) {
      const std::size_t compute = next_to_compute();
      const std::size_t move = best(StepLane::kNetwork, kNever);
      if (move != kNoStep && can_start(move, compute)) {
        place(move);
      } else if (compute != kNoStep) {
        place(compute);
      } else {
        wait(move);
      }
    }
  }
  std::vector<std::size_t> take_order() { return std::move(order_); }
  AwaitedSteps take_awaits() { return std::move(awaits_); }

 private:
  bool fits(std::size_t step) const {
    return player_.bytes() + player_.bytes_made(step) <= max_bytes_;
  }
  /// Returns the most urgent step of the lane of those that can run now and take at most
  /// `seconds`.
  std::size_t best(StepLane lane, double seconds) const {
    std::size_t found = kNoStep;
    for (const std::size_t step : ready_) {
      if (graph_.steps[step].lane != lane || !player_.is_ready(step) ||
          graph_.steps[step].seconds > seconds || !fits(step))
        continue;
      if (found == kNoStep || comes_before(step, found)) found = step;
    }
    return found;
  }
  /// Returns the step of the compute lane that goes next; none if waiting is better. A step that
  /// ends long after something more urgent arrives would delay that: one that ends before goes
  /// first.
  std::size_t next_to_compute() const {
    const std::size_t urgent = best(StepLane::kCompute, kNever);
    if (urgent == kNoStep || idling_ == Idling::kIfNothingIsReady) return urgent;
    double gap = kNever;
    for (const std::size_t step : ready_)
      if (!player_.is_ready(step) && comes_before(step, urgent))
        gap = std::min(gap, player_.ready_at(step) - player_.compute_time());
    if (graph_.steps[urgent].seconds <= gap) return urgent;
    const std::size_t filler = best(StepLane::kCompute, gap);
    if (filler != kNoStep) return filler;
    return graph_.steps[urgent].seconds > 2 * gap ? kNoStep : urgent;
  }
  bool comes_before(std::size_t a, std::size_t b) const {
    return urgency_[a] != urgency_[b] ? urgency_[a] > urgency_[b] : a < b;
  }
  /// Returns whether a step of the network lane should start before the next of the compute lane:
  /// if the network lane becomes free before that one ends. A later start could let a more urgent
  /// step go first.
  bool can_start(std::size_t move, std::size_t compute) const {
    const double seconds = compute == kNoStep ? 0 : graph_.steps[compute].seconds;
    return graph_.steps[move].seconds <= 0 ||
           player_.network_time() <= player_.compute_time() + seconds;
  }
  void place(std::size_t step) {
    ready_.erase(std::ranges::find(ready_, step));
    order_.push_back(step);
    const std::size_t awaited = std::exchange(awaited_, kNoStep);
    if (awaited != kNoStep && graph_.steps[step].lane == StepLane::kNetwork)
      awaits_[step] = awaited;
    player_.run(step, ready_);
  }
  /// Waits for the next arrival or, if `move` could start, for the network lane. If neither comes,
  /// memory is short: runs the most urgent step all the same.
  void wait(std::size_t move) {
    double next = move != kNoStep ? player_.network_time() : kNever;
    awaited_ = kNoStep;
    if (const std::size_t last = player_.last_in_flight();
        move != kNoStep && starts_ == Starts::kAlone && last != kNoStep) {
      awaited_ = last;
      next = std::max(next, player_.end_of(last));
    }
    const double lane_is_free = next;
    std::size_t urgent = kNoStep;
    for (const std::size_t step : ready_) {
      if (!player_.is_ready(step)) next = std::min(next, player_.ready_at(step));
      else if (urgent == kNoStep || comes_before(step, urgent)) urgent = step;
    }
    if (next < lane_is_free) awaited_ = kNoStep;
    if (next < kNever) return player_.wait_until(next);
    WEFT_CHECK(urgent != kNoStep, "no step can run");
    place(urgent);
  }

  const ListedSteps& graph_;
  const std::vector<double>& urgency_;
  const Idling idling_;
  const Starts starts_;
  const double max_bytes_;
  LanePlayer player_;
  std::vector<std::size_t> ready_;
  std::vector<std::size_t> order_;
  AwaitedSteps awaits_;
  std::size_t awaited_ = kNoStep;  ///< Step whose arrival the compute lane has just waited for.
};

/// Returns the seconds from the beginning of each step to the end of the graph, on the longest
/// path. Those of the network lane count `network_weight` times.
std::vector<double> longest_paths(const ListedSteps& graph, const ValueUses& uses,
                                  double network_weight) {
  std::vector<double> paths(graph.steps.size());
  for (std::size_t i = graph.steps.size(); i-- > 0;) {
    const ListedStep& step = graph.steps[i];
    for (const std::size_t value : step.makes)
      for (const std::size_t reader : uses.readers[value])
        paths[i] = std::max(paths[i], paths[reader]);
    paths[i] +=
        (step.seconds + step.latency) * (step.lane == StepLane::kNetwork ? network_weight : 1.0);
  }
  return paths;
}

/// Returns the graph with all steps in the opposite direction: the last one first.
ListedSteps reversed(const ListedSteps& graph, const ValueUses& uses) {
  ListedSteps result;
  const std::size_t last = graph.steps.size() - 1;
  result.values.resize(graph.steps.size());
  for (std::size_t i = graph.steps.size(); i-- > 0;) {
    const ListedStep& step = graph.steps[i];
    ListedStep back{step.lane, step.seconds, step.latency, {}, {last - i}};
    for (const std::size_t value : step.makes)
      for (const std::size_t reader : uses.readers[value]) back.reads.push_back(last - reader);
    result.steps.push_back(std::move(back));
  }
  return result;
}

/// Lists the steps from the end, the last ones of `order` first. Returns how urgent this list makes
/// each step of the graph. `backward`: the reversed graph.
///
/// Source: forward-backward improvement of list schedules (Li and Willis, 1992).
std::vector<double> urgency_from_the_end(const ListedSteps& backward, Sharing sharing,
                                         const std::vector<std::size_t>& order) {
  const std::size_t last = backward.steps.size() - 1;
  std::vector<double> urgency(backward.steps.size(), static_cast<double>(last));
  for (std::size_t at = 0; at < order.size(); ++at)
    urgency[last - order[at]] = static_cast<double>(at);
  const ValueUses uses(backward);
  StepLister lister(backward, uses, urgency, sharing, StepLister::Idling::kIfNothingIsReady,
                    StepLister::Starts::kAtOnce, kNever);
  lister.run();
  const std::vector<std::size_t> list = lister.take_order();
  std::vector<double> result(backward.steps.size());
  for (std::size_t at = 0; at < list.size(); ++at)
    result[last - list[at]] = static_cast<double>(at);
  return result;
}

StepList play(const ListedSteps& graph, const ValueUses& uses,
              const std::vector<std::size_t>& order, const AwaitedSteps& awaits, Sharing sharing) {
  LanePlayer player(graph, uses, sharing);
  std::vector<std::size_t> ready;
  for (const std::size_t step : order) {
    const auto awaited = awaits.find(step);
    player.run(step, ready, awaited != awaits.end() ? awaited->second : kNoStep);
  }
  return player.result();
}

double length(const StepList& list) { return list.seconds + list.late; }

/// An order under both ways to share the network lane.
struct PlayedOrder {
  PlayedOrder(const ListedSteps& graph, const ValueUses& uses, std::vector<std::size_t> of,
              AwaitedSteps waits)
      : order(std::move(of)),
        awaits(std::move(waits)),
        one_by_one(play(graph, uses, order, awaits, Sharing::kOneByOne)),
        fair(play(graph, uses, order, awaits, Sharing::kFair)) {}

  double total() const { return length(one_by_one) + length(fair); }
  /// Returns whether neither way makes this order longer than the other.
  bool is_never_longer(const PlayedOrder& other) const {
    constexpr double kRounding = 1 + 1e-9;
    return length(one_by_one) <= length(other.one_by_one) * kRounding &&
           length(fair) <= length(other.fair) * kRounding;
  }
  StepList mean() && {
    const auto mean_of = [](double a, double b) { return (a + b) / 2; };
    StepList result{std::move(order),
                    std::move(awaits),
                    mean_of(one_by_one.seconds, fair.seconds),
                    mean_of(one_by_one.exposed, fair.exposed),
                    mean_of(one_by_one.late, fair.late),
                    one_by_one.peak_bytes,
                    std::move(one_by_one.begin),
                    std::move(one_by_one.end)};
    std::ranges::transform(result.begin, fair.begin, result.begin.begin(), mean_of);
    std::ranges::transform(result.end, fair.end, result.end.begin(), mean_of);
    return result;
  }

  std::vector<std::size_t> order;
  AwaitedSteps awaits;
  StepList one_by_one, fair;
};

}  // namespace

StepList play_steps(const ListedSteps& graph, std::vector<std::size_t> order, AwaitedSteps awaits) {
  return PlayedOrder(graph, ValueUses(graph), std::move(order), std::move(awaits)).mean();
}

StepList list_steps(const ListedSteps& graph, const ListOptions& options) {
  std::vector<std::size_t> first = options.given;
  if (first.empty())
    for (std::size_t i = 0; i < graph.steps.size(); ++i)
      if (!graph.steps[i].starts_itself) first.push_back(i);
  const ValueUses uses(graph);
  const PlayedOrder given(graph, uses, std::move(first), options.given_awaits);
  PlayedOrder shortest = given;
  const double max_bytes =
      options.max_memory * std::max(given.one_by_one.peak_bytes, options.max_bytes);
  const bool has_moves = std::ranges::any_of(graph.steps, [](const ListedStep& step) {
    return step.lane == StepLane::kNetwork && step.seconds > 0;
  });
  if (!has_moves) return std::move(shortest).mean();
  const ListedSteps backward = reversed(graph, uses);
  const double worth_it = given.total() * (1 - options.min_gain);
  // Less than this is not worth yet another order.
  constexpr double kMinStep = 5e-3;
  constexpr int kRounds = 2;
  const auto try_order = [&](std::vector<std::size_t> order, AwaitedSteps awaits) {
    PlayedOrder played(graph, uses, std::move(order), std::move(awaits));
    if (played.one_by_one.peak_bytes <= max_bytes && played.is_never_longer(given) &&
        played.total() < worth_it && played.total() < shortest.total() * (1 - kMinStep))
      shortest = std::move(played);
  };
  for (const double network_weight : {1.0, 0.5, 2.0}) {
    for (const Sharing sharing : {Sharing::kOneByOne, Sharing::kFair}) {
      for (const auto idling :
           {StepLister::Idling::kIfNothingIsReady, StepLister::Idling::kIfShort}) {
        for (const auto starts : {StepLister::Starts::kAtOnce, StepLister::Starts::kAlone}) {
          std::vector<double> urgency = longest_paths(graph, uses, network_weight);
          for (int round = 0; round <= kRounds; ++round) {
            StepLister lister(graph, uses, urgency, sharing, idling, starts, max_bytes);
            lister.run();
            const std::vector<std::size_t> order = lister.take_order();
            try_order(order, lister.take_awaits());
            if (round < kRounds) urgency = urgency_from_the_end(backward, sharing, order);
          }
        }
      }
    }
  }
  return std::move(shortest).mean();
}

}  // namespace weft::mesh

#include "mesh/program/step_list.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "transfer/flow/egress_limit.h"

namespace weft::mesh {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr double kNever = std::numeric_limits<double>::infinity();

/// Readers and makers of the values of a graph.
struct ValueUses {
  explicit ValueUses(const ListedSteps& graph)
      : maker(graph.values.size(), kNone), readers(graph.values.size()) {
    for (std::size_t i = 0; i < graph.steps.size(); ++i) {
      for (const std::size_t value : graph.steps[i].reads) readers[value].push_back(i);
      for (const std::size_t value : graph.steps[i].makes) maker[value] = i;
    }
  }
  std::vector<std::size_t> maker;
  std::vector<std::vector<std::size_t>> readers;
};

/// Moves that use the network lane at a time; the others wait in the order of their starts.
enum class Sharing : std::size_t {
  kOneByOne = 1,
  kFair = transfer::EgressLimit().device_streams,  ///< As many as a sender admits share it equally.
};

/// Network lane. A value.
class NetworkLane {
 public:
  explicit NetworkLane(Sharing sharing) : sharing_(sharing) {}
  /// Starts a move at the time that the lane has reached.
  void start(std::size_t step, double seconds, double latency) {
    flights_.push_back({step, seconds, latency});
  }
  /// Lets the time pass until `now`. Calls `ended(step, time)` for each move that ends.
  template <typename Ended>
  void advance(double now, const Ended& ended) {
    while (!flights_.empty()) {
      const std::size_t count = active();
      const double least = shortest();
      const double until = now_ + least * static_cast<double>(count);
      if (until > now) {
        pass((now - now_) / static_cast<double>(count));
        break;
      }
      pass(least);
      now_ = until;
      for (std::size_t i = count; i-- > 0;) {
        if (flights_[i].left > 0) continue;
        landings_.push_back({flights_[i].step, now_ + flights_[i].latency});
        flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    now_ = std::max(now_, now);
    std::erase_if(landings_, [&](const Landing& landing) {
      if (landing.time > now) return false;
      ended(landing.step, landing.time);
      return true;
    });
  }
  /// Returns the time at which a move in flight ends if no other one starts.
  double end_of(std::size_t step) const {
    const auto landing = std::ranges::find(landings_, step, &Landing::step);
    if (landing != landings_.end()) return landing->time;
    double end = now_;
    NetworkLane(*this).advance(kNever, [&](std::size_t one, double time) {
      if (one == step) end = time;
    });
    return end;
  }
  /// Returns the time at which another move could use the whole lane.
  double free_at() const {
    double left = 0;
    for (const Flight& flight : flights_) left += flight.left;
    return now_ + left;
  }

 private:
  struct Flight {
    std::size_t step = 0;
    double left = 0;  ///< Seconds that the rest takes alone.
    double latency = 0;
  };
  /// Move that does not use the lane any more.
  struct Landing {
    std::size_t step = 0;
    double time = 0;
  };
  std::size_t active() const {
    return std::min(flights_.size(), static_cast<std::size_t>(sharing_));
  }
  double shortest() const {
    double left = flights_.front().left;
    for (std::size_t i = 1; i < active(); ++i) left = std::min(left, flights_[i].left);
    return left;
  }
  /// Takes seconds that a move would need alone from each active one.
  void pass(double seconds) {
    const std::size_t count = active();
    for (std::size_t i = 0; i < count; ++i) flights_[i].left -= seconds;
  }

  Sharing sharing_;
  double now_ = 0;
  std::vector<Flight> flights_;  ///< Moves in the order of their starts.
  std::vector<Landing> landings_;
};

/// Runs steps one after the other, and keeps the times of both lanes and the memory. A value.
class LanePlayer {
 public:
  LanePlayer(const ListedSteps& graph, const ValueUses& uses, Sharing sharing)
      : graph_(graph),
        uses_(uses),
        network_(sharing),
        state_(graph.steps.size(), State::kWaiting),
        begins_(graph.steps.size()),
        ends_(graph.steps.size()),
        unread_(graph.values.size()),
        awaited_(graph.steps.size()),
        missing_(graph.steps.size()) {
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      unread_[v] = uses.readers[v].size();
      if (uses.maker[v] == kNone) bytes_ += graph.values[v].bytes;
    }
    peak_ = bytes_;
    for (std::size_t i = 0; i < graph.steps.size(); ++i)
      missing_[i] = std::ranges::count_if(
          graph.steps[i].reads, [&](std::size_t value) { return uses.maker[value] != kNone; });
  }

  double compute_time() const { return compute_; }
  double network_time() const { return network_.free_at(); }
  double bytes() const { return bytes_; }
  /// Returns whether all values that a step reads exist now.
  bool is_ready(std::size_t step) const {
    return std::ranges::all_of(graph_.steps[step].reads, [&](std::size_t value) {
      return uses_.maker[value] == kNone || state_[uses_.maker[value]] == State::kEnded;
    });
  }
  /// Returns the time at which a step has what it reads; infinity while that is not known.
  double ready_at(std::size_t step) const {
    double ready = 0;
    for (const std::size_t value : graph_.steps[step].reads) {
      const std::size_t maker = uses_.maker[value];
      if (maker == kNone || state_[maker] == State::kEnded) continue;
      if (state_[maker] == State::kWaiting) return kNever;
      ready = std::max(ready, network_.end_of(maker));
    }
    return ready;
  }
  /// Lets the compute lane wait.
  void wait_until(double time) {
    exposed_ += std::max(time - compute_, 0.0);
    pass_until(std::max(compute_, time));
  }

  /// Runs a step, and then those that start themselves when it has made their values. Appends the
  /// steps to `ready` that have all makers of their values behind them now.
  void run(std::size_t index, std::vector<std::size_t>& ready) {
    const ListedStep& step = graph_.steps[index];
    const double available = ready_at(index);
    WEFT_CHECK(available < kNever, "step {} comes before what it reads", index);
    if (step.starts_itself) wait_for_buffers(step.buffer_bytes);
    else wait_until(available);
    begins_[index] = ends_[index] = compute_;
    if (step.lane == StepLane::kCompute) {
      pass_until(compute_ + step.seconds);
      ends_[index] = compute_;
      state_[index] = State::kEnded;
    } else if (step.seconds + step.latency <= 0) {
      state_[index] = State::kEnded;
    } else {
      state_[index] = State::kInFlight;
      network_.start(index, step.seconds, step.latency);
      if (step.buffer_bytes > 0) holding_.push_back(index);
      held_bytes_ += step.buffer_bytes;
    }
    for (const std::size_t value : step.makes) bytes_ += graph_.values[value].bytes;
    peak_ = std::max(peak_, bytes_);
    if (step.lane == StepLane::kCompute || step.starts_itself) {
      for (const std::size_t value : step.reads) free_if_read(value);
    }
    for (const std::size_t value : step.reads) free_source(uses_.maker[value]);
    std::vector<std::size_t> started;
    for (const std::size_t value : step.makes) {
      for (const std::size_t reader : uses_.readers[value])
        if (--missing_[reader] == 0)
          (graph_.steps[reader].starts_itself ? started : ready).push_back(reader);
      if (unread_[value] == 0 && !graph_.values[value].is_kept)
        bytes_ -= graph_.values[value].bytes;
    }
    for (const std::size_t own : started) run(own, ready);
  }

  /// Returns the bytes by which a step increases the memory.
  double bytes_made(std::size_t index) const {
    double made = 0;
    for (const std::size_t value : graph_.steps[index].makes) made += graph_.values[value].bytes;
    return made;
  }

  /// Ends all moves. Returns the times, without the order.
  StepList result() {
    const double computed = compute_;
    pass_until(kNever);
    const double end = std::max(computed, end_);
    return {{}, end, exposed_, std::max(own_end_ - end, 0.0), peak_, begins_, ends_};
  }

 private:
  enum class State : std::uint8_t { kWaiting, kInFlight, kEnded };

  void pass_until(double time) {
    compute_ = time;
    network_.advance(time, [this](std::size_t step, double end) {
      state_[step] = State::kEnded;
      ends_[step] = end;
      double& last = graph_.steps[step].starts_itself ? own_end_ : end_;
      last = std::max(last, end);
    });
  }
  /// Waits until so many bytes of buffers are free.
  void wait_for_buffers(double bytes) {
    while (!holding_.empty() && held_bytes_ + bytes > graph_.max_buffer_bytes) {
      const std::size_t oldest = holding_.front();
      if (state_[oldest] == State::kInFlight) wait_until(network_.end_of(oldest));
      held_bytes_ -= graph_.steps[oldest].buffer_bytes;
      holding_.pop_front();
    }
  }
  /// Frees what a step of the network lane reads: a device waits for it before the first use.
  void free_source(std::size_t maker) {
    if (maker == kNone || graph_.steps[maker].lane != StepLane::kNetwork || awaited_[maker]) return;
    awaited_[maker] = true;
    for (const std::size_t value : graph_.steps[maker].reads) free_if_read(value);
  }
  void free_if_read(std::size_t value) {
    if (--unread_[value] == 0 && !graph_.values[value].is_kept)
      bytes_ -= graph_.values[value].bytes;
  }

  const ListedSteps& graph_;
  const ValueUses& uses_;
  double compute_ = 0;  ///< Time at which the compute lane is free.
  NetworkLane network_;
  double end_ = 0, own_end_ = 0;  ///< Last ends of moves; of those that started themselves.
  double exposed_ = 0;
  std::deque<std::size_t> holding_;  ///< Steps that hold buffers, in the order of their starts.
  double held_bytes_ = 0;
  double bytes_ = 0, peak_ = 0;
  std::vector<State> state_;
  std::vector<double> begins_, ends_;  ///< Times, by step.
  std::vector<std::size_t> unread_;    ///< Readers that have not run, by value.
  std::vector<bool> awaited_;          ///< True once a step has read what a network step makes.
  std::vector<std::size_t>
      missing_;  ///< Values that no step has made yet, by step that reads them.
};

/// List scheduler of one graph. Used once.
class StepLister {
 public:
  enum class Idling : std::uint8_t {
    kIfNothingIsReady,
    kIfShort,  ///< Also if the next step would delay a more urgent one by more than the wait.
  };

  /// `urgency`: by step; the highest goes first.
  StepLister(const ListedSteps& graph, const ValueUses& uses, const std::vector<double>& urgency,
             Sharing sharing, Idling idling, double max_bytes)
      : graph_(graph),
        urgency_(urgency),
        idling_(idling),
        max_bytes_(max_bytes),
        player_(graph, uses, sharing) {
    for (std::size_t i = 0; i < graph.steps.size(); ++i)
      if (!graph.steps[i].starts_itself &&
          std::ranges::all_of(graph.steps[i].reads,
                              [&](std::size_t value) { return uses.maker[value] == kNone; }))
        ready_.push_back(i);
  }

  std::vector<std::size_t> run() {
    while (!ready_.empty()) {
      const std::size_t compute = next_to_compute();
      const std::size_t move = best(StepLane::kNetwork, kNever);
      if (move != kNone && can_start(move, compute)) {
        place(move);
      } else if (compute != kNone) {
        place(compute);
      } else {
        wait(move);
      }
    }
    return std::move(order_);
  }

 private:
  bool fits(std::size_t step) const {
    return player_.bytes() + player_.bytes_made(step) <= max_bytes_;
  }
  /// Returns the most urgent step of the lane of those that can run now and take at most
  /// `seconds`.
  std::size_t best(StepLane lane, double seconds) const {
    std::size_t found = kNone;
    for (const std::size_t step : ready_) {
      if (graph_.steps[step].lane != lane || !player_.is_ready(step) ||
          graph_.steps[step].seconds > seconds || !fits(step))
        continue;
      if (found == kNone || comes_before(step, found)) found = step;
    }
    return found;
  }
  /// Returns the step of the compute lane that goes next; none if waiting is better. A step that
  /// ends long after something more urgent arrives would delay that: one that ends before goes
  /// first.
  std::size_t next_to_compute() const {
    const std::size_t urgent = best(StepLane::kCompute, kNever);
    if (urgent == kNone || idling_ == Idling::kIfNothingIsReady) return urgent;
    double gap = kNever;
    for (const std::size_t step : ready_)
      if (!player_.is_ready(step) && comes_before(step, urgent))
        gap = std::min(gap, player_.ready_at(step) - player_.compute_time());
    if (graph_.steps[urgent].seconds <= gap) return urgent;
    const std::size_t filler = best(StepLane::kCompute, gap);
    if (filler != kNone) return filler;
    return graph_.steps[urgent].seconds > 2 * gap ? kNone : urgent;
  }
  bool comes_before(std::size_t a, std::size_t b) const {
    return urgency_[a] != urgency_[b] ? urgency_[a] > urgency_[b] : a < b;
  }
  /// Returns whether a step of the network lane should start before the next of the compute lane:
  /// if the network lane becomes free before that one ends. A later start could let a more urgent
  /// step go first.
  bool can_start(std::size_t move, std::size_t compute) const {
    const double seconds = compute == kNone ? 0 : graph_.steps[compute].seconds;
    return graph_.steps[move].seconds <= 0 ||
           player_.network_time() <= player_.compute_time() + seconds;
  }
  void place(std::size_t step) {
    ready_.erase(std::ranges::find(ready_, step));
    order_.push_back(step);
    player_.run(step, ready_);
  }
  /// Waits for the next arrival or, if `move` could start, for the network lane. If neither comes,
  /// memory is short: runs the most urgent step all the same.
  void wait(std::size_t move) {
    double next = move != kNone ? player_.network_time() : kNever;
    std::size_t urgent = kNone;
    for (const std::size_t step : ready_) {
      if (!player_.is_ready(step)) next = std::min(next, player_.ready_at(step));
      else if (urgent == kNone || comes_before(step, urgent)) urgent = step;
    }
    if (next < kNever) return player_.wait_until(next);
    WEFT_CHECK(urgent != kNone, "no step can run");
    place(urgent);
  }

  const ListedSteps& graph_;
  const std::vector<double>& urgency_;
  const Idling idling_;
  const double max_bytes_;
  LanePlayer player_;
  std::vector<std::size_t> ready_;
  std::vector<std::size_t> order_;
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
  const std::vector<std::size_t> list =
      StepLister(backward, uses, urgency, sharing, StepLister::Idling::kIfNothingIsReady, kNever)
          .run();
  std::vector<double> result(backward.steps.size());
  for (std::size_t at = 0; at < list.size(); ++at)
    result[last - list[at]] = static_cast<double>(at);
  return result;
}

StepList play(const ListedSteps& graph, const ValueUses& uses,
              const std::vector<std::size_t>& order, Sharing sharing) {
  LanePlayer player(graph, uses, sharing);
  std::vector<std::size_t> ready;
  for (const std::size_t step : order) player.run(step, ready);
  return player.result();
}

double length(const StepList& list) { return list.seconds + list.late; }

/// An order under both ways to share the network lane.
struct PlayedOrder {
  PlayedOrder(const ListedSteps& graph, const ValueUses& uses, std::vector<std::size_t> of)
      : order(std::move(of)),
        one_by_one(play(graph, uses, order, Sharing::kOneByOne)),
        fair(play(graph, uses, order, Sharing::kFair)) {}

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
  StepList one_by_one, fair;
};

}  // namespace

StepList play_steps(const ListedSteps& graph, std::vector<std::size_t> order) {
  return PlayedOrder(graph, ValueUses(graph), std::move(order)).mean();
}

StepList list_steps(const ListedSteps& graph, double max_memory) {
  std::vector<std::size_t> in_graph;
  for (std::size_t i = 0; i < graph.steps.size(); ++i)
    if (!graph.steps[i].starts_itself) in_graph.push_back(i);
  const ValueUses uses(graph);
  const PlayedOrder given(graph, uses, std::move(in_graph));
  PlayedOrder shortest = given;
  const double max_bytes = given.one_by_one.peak_bytes * max_memory;
  const bool has_moves = std::ranges::any_of(graph.steps, [](const ListedStep& step) {
    return step.lane == StepLane::kNetwork && step.seconds > 0;
  });
  if (!has_moves) return std::move(shortest).mean();
  const ListedSteps backward = reversed(graph, uses);
  // Less than this is not worth another order.
  constexpr double kMinGain = 5e-3;
  constexpr int kRounds = 2;
  const auto try_order = [&](std::vector<std::size_t> order) {
    PlayedOrder played(graph, uses, std::move(order));
    if (played.one_by_one.peak_bytes <= max_bytes && played.is_never_longer(given) &&
        played.total() < shortest.total() * (1 - kMinGain))
      shortest = std::move(played);
  };
  for (const double network_weight : {1.0, 0.5, 2.0}) {
    for (const Sharing sharing : {Sharing::kOneByOne, Sharing::kFair}) {
      for (const auto idling :
           {StepLister::Idling::kIfNothingIsReady, StepLister::Idling::kIfShort}) {
        std::vector<double> urgency = longest_paths(graph, uses, network_weight);
        for (int round = 0; round <= kRounds; ++round) {
          const std::vector<std::size_t> order =
              StepLister(graph, uses, urgency, sharing, idling, max_bytes).run();
          try_order(order);
          if (round < kRounds) urgency = urgency_from_the_end(backward, sharing, order);
        }
      }
    }
  }
  return std::move(shortest).mean();
}

}  // namespace weft::mesh

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "mesh/program/step_list.h"
#include "transfer/flow/egress_limit.h"

namespace weft::mesh {

/// Index of no step.
inline constexpr std::size_t kNoStep = std::numeric_limits<std::size_t>::max();
/// Time of an event that never comes.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// Readers and makers of the values of a graph.
struct ValueUses {
  explicit ValueUses(const ListedSteps& graph)
      : maker(graph.values.size(), kNoStep), readers(graph.values.size()) {
    for (std::size_t i = 0; i < graph.steps.size(); ++i) {
      for (const std::size_t value : graph.steps[i].reads) readers[value].push_back(i);
      for (const std::size_t value : graph.steps[i].makes) maker[value] = i;
    }
  }
  std::vector<std::size_t> maker;
  std::vector<std::vector<std::size_t>> readers;
};

/// Number of moves that use the network lane at a time. The others wait in the order of their
/// starts.
enum class Sharing : std::size_t {
  kOneByOne = 1,
  /// Equal sharing by as many as a sender admits.
  kFair = transfer::EgressLimit().device_streams,
};

/// Unit that carries moves, each of which takes some seconds alone and then a latency beside the
/// others. A value.
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

/// Runs steps one after the other, and keeps the times of both lanes and the memory. Borrows
/// its arguments.
class LanePlayer {
 public:
  LanePlayer(const ListedSteps& graph, const ValueUses& uses, Sharing sharing);

  double compute_time() const { return compute_; }
  double end_of(std::size_t in_flight) const { return network_.end_of(in_flight); }
  double network_time() const { return network_.free_at(); }
  double bytes() const { return bytes_; }
  /// Returns whether all values that a step reads exist now.
  bool is_ready(std::size_t step) const;
  /// Returns the time at which a step has what it reads; infinity while that is not known.
  double ready_at(std::size_t step) const;
  /// Lets the compute lane wait.
  void wait_until(double time);

  /// Returns the step in flight that ends last, of those that do not start themselves; kNoStep if
  /// there is none.
  std::size_t last_in_flight() const;
  /// Runs a step, and then those that start themselves when it has made their values. Appends the
  /// steps to `ready` that have all makers of their values behind them now. `awaited`: a step of
  /// the network lane whose values arrive first, or kNoStep.
  void run(std::size_t index, std::vector<std::size_t>& ready, std::size_t awaited = kNoStep);

  /// Returns the bytes by which a step increases the memory.
  double bytes_made(std::size_t index) const;

  /// Ends all moves. Returns the times, without the order.
  StepList result();

 private:
  enum class State : std::uint8_t { kWaiting, kInFlight, kEnded };

  void pass_until(double time);
  /// Waits until so many bytes of buffers are free.
  void wait_for_buffers(double bytes);
  /// Frees what a step of the network lane reads: a device waits for it before the first use.
  void free_source(std::size_t maker);
  void free_if_read(std::size_t value);

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
  /// Values that no step has made yet, by step that reads them.
  std::vector<std::size_t> missing_;
};

}  // namespace weft::mesh

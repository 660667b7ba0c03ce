#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/philox.h"
#include "transfer/flow/flow.h"
#include "transfer/reshard/internal/flow_parts.h"
#include "transfer/reshard/internal/host_loads.h"
#include "transfer/reshard/internal/pieces.h"
#include "transfer/reshard/internal/weft_problem.h"

namespace weft::transfer::internal {

/// Ratio of a plan's time to the limit below which it is not improved further.
inline constexpr double kGoodRatio = 1.015;
/// Ratio of a plan's time to the limit below which random attempts are not made.
inline constexpr double kRandomSearchRatio = 1.025;

/// Flows of some pieces, and the best order found.
struct OrderCandidate {
  /// Returns the cost by which candidates are compared.
  double cost() const { return seconds * (1 + kRelayPenalty * loads.relayed); }
  /// Returns the time ratio below which an alternative replaces this candidate.
  double replace_ratio(double limit_seconds) const;

  /// Weight of relayed bytes in the cost of a plan: 1.4 times the time if relays send everything.
  /// In a fluid, a relay gets as much of a link as a holder. A real relay whose own link is full of
  /// incoming data gets about half, probably because its acknowledgements and credits wait in that
  /// queue. It then lags behind and exchanges the rest when the holders are done. GPT-2's weights
  /// from 2 hosts to 4 reached 0.87 of the limit in chains, where the fluid predicts 0.99, and 0.97
  /// in trees of two levels.
  static constexpr double kRelayPenalty = 0.4;

  std::vector<Flow> flows;
  /// Flows without details irrelevant to orders: segments, and fan-out inside hosts.
  std::vector<Flow> light;
  std::vector<std::vector<DeviceId>> roots;  ///< Per flow, the devices that can be its root.
  HostLoads loads;
  /// True if no order can meet the time: some host's sends alone exceed it.
  bool infeasible = false;
  std::vector<FlowPart> order;
  std::vector<std::uint32_t> places;  ///< Egress slots per device.
  bool fine = false;                  ///< True: smaller chunks for forwarded flows.
  double seconds = std::numeric_limits<double>::infinity();
  bool regular = true;  ///< True if the order is a regular one.
};

/// Searches for good orders of flows, by simulation: regular orders first, then preemptive
/// schedules. Owns the budget of simulation steps and the random numbers of one call of
/// plan_weft().
class OrderSearch final {
 public:
  /// Numbers of attempts: [0, kFirstAttempts) by order(), the others by improve().
  static constexpr std::size_t kFirstAttempts = 2, kMaxAttempts = 96;
  /// Number of flows beyond which no attempts are made.
  static constexpr std::size_t kMaxFlowsToSchedule = 1500;

  explicit OrderSearch(const WeftProblem& problem) : problem_(problem) {}

  /// Returns the flows of `pieces` in the best of the regular orders and the first attempts.
  OrderCandidate order(const std::vector<Piece>& pieces);
  /// Makes attempt `number` to find a better order.
  void improve(OrderCandidate& candidate, std::size_t number);
  /// Returns true if the budget of PlanOptions::simulate_steps is spent.
  bool is_exhausted() const { return steps_ > problem_.options.simulate_steps; }

 private:
  /// Parameters of an attempt to order and cut flows by a preemptive schedule.
  struct AttemptParameters;

  OrderCandidate candidate_of(const std::vector<Piece>& pieces);
  AttemptParameters attempt_number(std::size_t i);
  /// Schedules the flows preemptively, and keeps that order if it is better.
  void attempt(OrderCandidate& candidate, const AttemptParameters& how);
  /// Simulates `order`, and keeps it if it is better.
  void evaluate_order(OrderCandidate& candidate, const std::vector<FlowPart>& order,
                      const std::vector<std::uint32_t>& places, bool fine);

  const WeftProblem& problem_;
  PhiloxStream random_{problem_.options.seed};
  std::uint64_t steps_ = 0;  ///< Simulation steps spent.
};

}  // namespace weft::transfer::internal

#include "transfer/reshard/internal/weft.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "transfer/reshard/internal/flow_parts.h"
#include "transfer/reshard/internal/order_search.h"
#include "transfer/reshard/internal/pieces.h"
#include "transfer/reshard/internal/weft_problem.h"

namespace weft::transfer::internal {
namespace {

constexpr std::uint64_t kSmallestPiece = 256 * 1024;
constexpr std::size_t kMaxPieces = 4096;
constexpr double kFlowsInFlight = 8;
/// Ratio of a plan's time to the limit below which data need not be cut.
constexpr double kGoodEnough = 1.004;
/// Multiple of the limit's time for which holders may send before receivers must forward. The
/// excess is fitted afterwards.
constexpr double kHolderTimeRatio = 1.1;

/// Plans one demand: tries several sets of pieces, and keeps the one whose flows end first. Lives
/// for one call.
class WeftPlanner {
 public:
  explicit WeftPlanner(const WeftProblem& problem) : problem_(problem) {}

  WeftPlan run() {
    const std::vector<std::vector<std::uint64_t>> cuts = cuts_between_bundles();
    const TreeShape shape = choose_shape(cuts);
    const auto pieces = [&](SendPreference preference, double seconds) {
      return whole_pieces(data_, cuts, network_, preference, seconds, shape);
    };
    if (data_.size() == 1) evaluate_pieces(one_chain(shape));
    if (!best_.flows.empty() && !can_improve(kGoodRatio)) return finish();
    const std::vector<Piece> whole =
        pieces(SendPreference::kPreferHolders, limit_seconds_ * kHolderTimeRatio);
    evaluate_pieces(whole);
    if (egress_seconds(data_, network_, whole) > limit_seconds_ * kGoodEnough)
      evaluate_pieces(
          fitted_pieces(data_, network_, whole, limit_seconds_ * 1.0005, kSmallestPiece, shape));
    if (can_improve(kGoodRatio))
      evaluate_pieces(fitted_pieces(
          data_, network_,
          staircase_pieces(data_, network_, whole, limit_seconds_ * 1.0005, kSmallestPiece),
          limit_seconds_ * 1.0005, kSmallestPiece, shape));
    if (can_improve(kGoodRatio))
      evaluate_pieces(pieces(SendPreference::kPreferHolders, limit_seconds_ * 1.0005));
    if (can_improve(kGoodRatio))
      evaluate_pieces(pieces(SendPreference::kChains, limit_seconds_ * 1.0005));
    if (can_improve(kGoodRatio)) {
      TreeShape relays;
      relays.single_relay = true;
      const std::vector<Piece> even =
          whole_pieces(data_, even_cuts(), network_, SendPreference::kEven, limit_seconds_, relays);
      evaluate_pieces(even);
      if (egress_seconds(data_, network_, even) > limit_seconds_ * kGoodEnough)
        evaluate_pieces(
            fitted_pieces(data_, network_, even, limit_seconds_ * 1.0005, kSmallestPiece, relays));
    }
    if (can_improve(kGoodRatio)) evaluate_pieces(pieces(SendPreference::kEven, limit_seconds_));
    // Latency-bound plans: holders send everything directly.
    if (can_improve(1.1))
      evaluate_pieces(
          pieces(SendPreference::kPreferHolders, std::numeric_limits<double>::infinity()));
    for (std::size_t i = OrderSearch::kFirstAttempts;
         i < OrderSearch::kMaxAttempts && can_improve(i < 5 ? kGoodRatio : kRandomSearchRatio); ++i)
      orders_.improve(best_, i);
    return finish();
  }

 private:
  WeftPlan finish() const {
    return {parts_of(problem_, best_.flows, best_.order, best_.fine), best_.places, best_.seconds,
            best_.flows.size() <= OrderSearch::kMaxFlowsToSchedule};
  }

  /// Returns the ends of each datum's bundles, except the last. Separate trees per bundle let
  /// different hosts come first.
  std::vector<std::vector<std::uint64_t>> cuts_between_bundles() const {
    std::vector<std::vector<std::uint64_t>> cuts(data_.size());
    if (problem_.demand.bundles.size() > kMaxPieces) return cuts;
    for (std::size_t k = 0; k < cuts.size(); ++k) {
      const std::uint64_t smallest = std::max(kSmallestPiece, data_[k].bytes / 64);
      std::uint64_t end = 0, last = 0;
      for (const std::uint32_t bundle : problem_.demand.bundles_of[k]) {
        end += problem_.demand.bundles[bundle].bytes;
        if (end - last < smallest || data_[k].bytes - end < smallest) continue;
        cuts[k].push_back(end);
        last = end;
      }
    }
    return cuts;
  }

  /// Returns cuts of each datum into as many pieces as it has hosts, unless pieces become too
  /// small.
  std::vector<std::vector<std::uint64_t>> even_cuts() const {
    std::vector<std::vector<std::uint64_t>> cuts(data_.size());
    for (std::size_t k = 0; k < cuts.size(); ++k) {
      const HostDemand& datum = data_[k];
      const std::size_t pieces = std::min<std::size_t>(
          datum.holders.size() + datum.receivers.size(), datum.bytes / kSmallestPiece);
      for (std::size_t i = 1; i < pieces; ++i)
        cuts[k].push_back(datum.bytes / pieces * i / 64 * 64);
    }
    return cuts;
  }

  /// Returns one chain of hosts for a single datum. Each host receives from one host and sends to
  /// one, so that nothing collides.
  std::vector<Piece> one_chain(TreeShape shape) const {
    const std::vector<std::vector<std::uint64_t>> no_cuts(1);
    return whole_pieces(data_, no_cuts, network_, SendPreference::kChains, limit_seconds_ * 1.0005,
                        shape);
  }

  bool can_improve(double good_enough) const {
    return !orders_.is_exhausted() && best_.seconds > limit_seconds_ * good_enough;
  }

  /// Chooses chains of any length if filling them costs little. There are then enough data for
  /// every host to take every position, and each host sends to one host only, so that nothing
  /// collides. Otherwise chooses trees for data with many receivers.
  TreeShape choose_shape(std::span<const std::vector<std::uint64_t>> cuts) const {
    TreeShape shape;
    std::size_t longest = 0, pieces = 0;
    double slowest = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < data_.size(); ++k) {
      longest = std::max(longest, data_[k].receivers.size());
      pieces += cuts[k].size() + 1;
    }
    for (const Network::HostLinks& host : network_.hosts)
      slowest = std::min(slowest, host.egress());
    // Cost of filling: half a chain of chunks for each flow that a host has in flight.
    const double fill = 0.5 * longest * 64 * 1024 * kFlowsInFlight;
    if (pieces * 2 >= longest && fill <= 0.04 * limit_seconds_ * slowest)
      shape.longest_chain = longest;
    return shape;
  }

  /// Finds a good order for the flows of `pieces`, and replaces best_ if they are better.
  void evaluate_pieces(const std::vector<Piece>& pieces) {
    if (std::find(considered_.begin(), considered_.end(), pieces) != considered_.end()) return;
    considered_.push_back(pieces);
    OrderCandidate made = orders_.order(pieces);
    if (made.cost() < best_.cost() * best_.replace_ratio(limit_seconds_)) best_ = std::move(made);
  }

  const WeftProblem problem_;
  const std::vector<HostDemand>& data_ = problem_.demand.data;
  const Network& network_ = problem_.network;
  const double limit_seconds_ = problem_.limit.seconds;
  OrderSearch orders_{problem_};
  std::vector<std::vector<Piece>> considered_;
  OrderCandidate best_;
};

}  // namespace

WeftPlan plan_weft(const ReshardDemand& demand, const Topology& topology, const Network& network,
                   const PlanOptions& options, const LimitSolution& solution) {
  return WeftPlanner({demand, topology, network, options, solution.limit}).run();
}

}  // namespace weft::transfer::internal

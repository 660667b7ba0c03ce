#include "transfer/reshard/internal/weft.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "transfer/reshard/internal/draft.h"
#include "transfer/reshard/internal/flow_order.h"
#include "transfer/reshard/internal/forest.h"
#include "transfer/reshard/internal/pieces.h"
#include "transfer/reshard/internal/predict.h"

namespace weft::transfer::internal {
namespace {

constexpr std::uint64_t kSmallestPiece = 256 * 1024;
/// Cuts closer than this to the end of a bundle are moved there.
constexpr std::uint64_t kSnap = 64 * 1024;
constexpr std::size_t kMostFlowsToSchedule = 600;
constexpr std::size_t kMostPieces = 4096;
constexpr double kFlowsUnderWay = 8;
/// Making a flow takes about as long as simulating so many steps.
constexpr std::uint64_t kStepsPerFlow = 40;
/// Shares this close to the limit need no cutting of data.
constexpr double kGoodEnough = 1.004;
/// How much of the limit's time holders may send before wanters have to pass data on. Holders with little to send run ahead of
/// their relays, and what these then exchange among themselves is less even than a fluid: GPT-2's weights from 2 hosts to 4 went
/// in chains at 0.89 of the limit, with busy holders at 0.98.
constexpr double kHoldersBusy = 0.85;
/// A plan this close to the limit is not worth improving.
constexpr double kGoodOrder = 1.015;
/// What is regular gives way only to what is clearly faster: real links like it better than a simulation shows. So do orders, and
/// more so the first way to place what is sent.
constexpr double kBetter = 0.99;
constexpr double kMuchBetter = 0.97;

/// Plans one demand. Lives for one call.
class Weaver {
 public:
  Weaver(const Demand& demand, const Topology& topology, const Network& network, const PlanOptions& options, const Limit& limit)
      : demand_(demand), topology_(topology), network_(network), options_(options), limit_(limit) {}

  WeftPlan run() {
    const std::vector<std::vector<std::uint64_t>> cuts = cuts_between_bundles();
    const TreeShape shape = choose_shape(cuts);
    const auto pieces = [&](SendPreference preference, double seconds) {
      return whole_pieces(demand_.data, cuts, network_, preference, seconds, shape);
    };
    if (demand_.data.size() == 1) consider(one_chain(shape));
    if (!best_.flows.empty() && !worth_more(kGoodOrder)) return std::move(best_);
    const std::vector<Piece> whole = pieces(SendPreference::kHolders, limit_.seconds * kHoldersBusy);
    consider(whole);
    if (egress_seconds(demand_.data, network_, whole) > limit_.seconds * kGoodEnough) {
      consider(fitted_pieces(demand_.data, network_, whole, limit_.seconds * 1.0005, kSmallestPiece, shape));
    }
    if (worth_more(kGoodOrder)) consider(pieces(SendPreference::kHolders, limit_.seconds * 1.0005));
    if (worth_more(kGoodOrder)) consider(pieces(SendPreference::kChains, limit_.seconds * 1.0005));
    if (worth_more(kGoodOrder)) consider(pieces(SendPreference::kEven, limit_.seconds));
    // Where latency counts: everything straight from holders.
    if (worth_more(1.1)) consider(pieces(SendPreference::kHolders, std::numeric_limits<double>::infinity()));
    return std::move(best_);
  }

 private:
  /// Where a datum's bundles end, but for the last: trees of their own let other hosts come first in each.
  std::vector<std::vector<std::uint64_t>> cuts_between_bundles() const {
    std::vector<std::vector<std::uint64_t>> cuts(demand_.data.size());
    if (demand_.bundles.size() > kMostPieces) return cuts;
    for (std::size_t k = 0; k < cuts.size(); ++k) {
      const std::uint64_t smallest = std::max(kSmallestPiece, demand_.data[k].bytes / 64);
      std::uint64_t end = 0, last = 0;
      for (const std::uint32_t bundle : demand_.bundles_of[k]) {
        end += demand_.bundles[bundle].bytes;
        if (end - last < smallest || demand_.data[k].bytes - end < smallest) continue;
        cuts[k].push_back(end);
        last = end;
      }
    }
    return cuts;
  }

  /// All that the same hosts want down one chain of hosts: each then receives from one host and sends to one, and nothing
  /// collides.
  std::vector<Piece> one_chain(TreeShape shape) const {
    const std::vector<std::vector<std::uint64_t>> no_cuts(1);
    return whole_pieces(demand_.data, no_cuts, network_, SendPreference::kChains, limit_.seconds * 1.0005, shape);
  }

  bool worth_more(double good_enough) const {
    return steps_ <= options_.simulate_steps && best_.predicted_seconds > limit_.seconds * good_enough;
  }

  /// Chains of any length where their filling costs little: there are so many data that every host is once at every place, and
  /// each host sends to one other host only, so that nothing collides. Else trees for what many want.
  TreeShape choose_shape(std::span<const std::vector<std::uint64_t>> cuts) const {
    TreeShape shape;
    std::size_t longest = 0, pieces = 0;
    double slowest = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < demand_.data.size(); ++k) {
      longest = std::max(longest, demand_.data[k].wanters.size());
      pieces += cuts[k].size() + 1;
    }
    for (const Network::HostLinks& host : network_.hosts) slowest = std::min(slowest, host.egress());
    // Half a chain of chunks for each of the flows that a host has under way at a time.
    const double fill = 0.5 * static_cast<double>(longest) * 64 * 1024 * kFlowsUnderWay;
    if (pieces * 2 >= longest && fill <= 0.04 * limit_.seconds * slowest) shape.longest_chain = longest;
    return shape;
  }

  /// The flows of `pieces` in the best order found, if they are better than what there is.
  void consider(const std::vector<Piece>& pieces) {
    std::vector<Flow> flows = flows_of(pieces);
    steps_ += flows.size() * kStepsPerFlow;
    // Orders are tried on flows without what does not matter for them: segments, which may be many, and fan-out inside hosts.
    std::vector<Flow> light;
    for (const Flow& flow : flows) {
      light.push_back({flow.id, flow.kind, {}, flow.root, {}, flow.bytes, flow.chunk_bytes, flow.window});
      for (const FlowEdge& edge : flow.edges) {
        if (topology_.host_of(edge.parent) != topology_.host_of(edge.child)) light.back().edges.push_back(edge);
      }
    }
    std::vector<std::uint32_t> best_order;
    double best_seconds = 0;
    const auto judge = [&](const std::vector<std::uint32_t>& order) {
      std::vector<Flow> ordered;
      for (const std::uint32_t i : order) ordered.push_back(light[i]);
      const double seconds = predict(ordered, topology_, network_, &steps_);
      if (!best_order.empty() && seconds >= best_seconds * kBetter) return;
      best_order = order;
      best_seconds = seconds;
    };
    const auto good = [&] { return best_seconds <= limit_.seconds * kGoodOrder; };
    const bool few = flows.size() <= kMostFlowsToSchedule;
    // Regular orders first: taking turns where nothing is passed on, so that no receiver is flooded; else the pieces as they were
    // made, large ones first and equal ones in turns, and their hosts in turns.
    const bool direct = std::all_of(light.begin(), light.end(), [](const Flow& flow) { return flow.edges.size() <= 1; });
    judge(direct ? rotated_order(light, topology_) : interleaved_order(light, topology_));
    PhiloxStream random(options_.seed);
    for (std::uint32_t attempt = 0; few && attempt < 16; ++attempt) {
      if (steps_ > options_.simulate_steps || good()) break;
      if (attempt == 0) judge(direct ? interleaved_order(light, topology_) : rotated_order(light, topology_));
      else judge(list_order(light, topology_, network_, attempt == 1 ? nullptr : &random));
    }
    if (!best_.flows.empty() && best_seconds >= best_.predicted_seconds * kMuchBetter) return;
    best_ = {reordered(std::move(flows), best_order), best_seconds, few && steps_ <= options_.simulate_steps};
  }

  std::vector<Flow> flows_of(const std::vector<Piece>& pieces) {
    Draft draft(demand_, topology_, network_, options_);
    const std::vector<double> spare = spare_egress(pieces);
    for (std::size_t turn = 0; turn < pieces.size(); ++turn) {
      const Piece& piece = pieces[turn];
      for (const HostTree& tree : arrange(demand_.data[piece.datum], piece, network_, spare, turn)) add(draft, piece, tree);
    }
    for (const Bundle& bundle : demand_.bundles) draft.add_local(bundle);
    return draft.finish(limit_.seconds);
  }

  std::vector<double> spare_egress(const std::vector<Piece>& pieces) const {
    const double seconds = std::max(limit_.seconds, egress_seconds(demand_.data, network_, pieces));
    std::vector<double> spare(network_.num_hosts(), 1.0);
    if (seconds <= 0) return spare;
    for (const Piece& piece : pieces) {
      const Datum& datum = demand_.data[piece.datum];
      for (std::size_t i = 0; i < piece.degrees.size(); ++i) {
        const HostId host = i < datum.holders.size() ? datum.holders[i] : datum.wanters[i - datum.holders.size()];
        spare[host.value()] -= static_cast<double>(piece.bytes) * piece.degrees[i] / (network_.host(host).egress() * seconds);
      }
    }
    return spare;
  }

  /// One flow for each bundle that the piece covers some of.
  void add(Draft& draft, const Piece& piece, const HostTree& tree) const {
    const std::uint64_t piece_end = piece.begin + piece.bytes, datum_end = demand_.data[piece.datum].bytes;
    std::uint64_t begin = 0;
    for (const std::uint32_t index : demand_.bundles_of[piece.datum]) {
      const Bundle& bundle = demand_.bundles[index];
      const std::uint64_t from = cut_in(begin, bundle.bytes, piece.begin, datum_end),
                          to = cut_in(begin, bundle.bytes, piece_end, datum_end);
      begin += bundle.bytes;
      if (from >= to) continue;
      const DeviceId root = draft.sender_for(tree.root, bundle);
      draft.add(bundle, {from, to - from}, root, draft.edges_along(bundle, root, tree.edges));
    }
  }

  /// Where a cut of the datum falls in a bundle that begins at `begin`: inside it only if it is not close to one of its ends.
  static std::uint64_t cut_in(std::uint64_t begin, std::uint64_t bytes, std::uint64_t cut, std::uint64_t datum_end) {
    if (cut <= begin) return 0;
    if (cut >= begin + bytes || cut >= datum_end) return bytes;
    const std::uint64_t inside = (cut - begin) / 64 * 64;
    if (inside < std::min(kSnap, bytes)) return inside * 2 < bytes ? 0 : bytes;
    return bytes - inside < kSnap ? bytes : inside;
  }

  const Demand& demand_;
  const Topology& topology_;
  const Network& network_;
  const PlanOptions& options_;
  const Limit& limit_;
  std::uint64_t steps_ = 0;  ///< Spent on simulating.
  WeftPlan best_;
};

}  // namespace

WeftPlan plan_weft(const Demand& demand, const Topology& topology, const Network& network, const PlanOptions& options,
                   const LimitSolution& solution) {
  return Weaver(demand, topology, network, options, solution.limit).run();
}

}  // namespace weft::transfer::internal

#include "transfer/reshard/internal/weft.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/philox.h"
#include "transfer/flow/egress_limit.h"
#include "transfer/flow/simulate.h"
#include "transfer/reshard/internal/flow_order.h"
#include "transfer/reshard/internal/host_trees.h"
#include "transfer/reshard/internal/pieces.h"
#include "transfer/reshard/internal/plan_builder.h"
#include "transfer/reshard/internal/predict.h"

namespace weft::transfer::internal {
namespace {

constexpr std::uint64_t kSmallestPiece = 256 * 1024;
/// Distance, in bytes, within which a cut moves to the end of a bundle.
constexpr std::uint64_t kSnapBytes = 64 * 1024;
/// Unit of cuts of flows, in bytes.
constexpr std::uint64_t kCutAlignment = 16 * 1024;
/// Smallest chunk, in bytes.
constexpr std::uint64_t kFineChunk = 56 * 1024;
/// Length of the shortest runs into which flows are usually cut, in bytes.
constexpr std::uint64_t kSmallestRun = 128 * 1024;
constexpr std::size_t kMaxFlowsToSchedule = 1500;
constexpr std::size_t kMaxPieces = 4096;
constexpr double kFlowsInFlight = 8;
/// Cost of making a flow, in simulation steps.
constexpr std::uint64_t kStepsPerFlow = 40;
/// Ratio of a plan's time to the limit below which data need not be cut.
constexpr double kGoodEnough = 1.004;
/// Multiple of the limit's time for which holders may send before receivers must forward. The
/// excess is fitted afterwards.
constexpr double kHolderTimeRatio = 1.1;
/// Weight of relayed bytes in the cost of a plan: 1.4 times the time if relays send everything. In
/// a fluid, a relay gets as much of a link as a holder. A real relay whose own link is full of
/// incoming data gets about half, probably because its acknowledgements and credits wait in that
/// queue. It then lags behind and exchanges the rest when the holders are done. GPT-2's weights
/// from 2 hosts to 4 reached 0.87 of the limit in chains, where the fluid predicts 0.99, and 0.97
/// in trees of two levels.
constexpr double kRelayPenalty = 0.4;
/// Weight of receiving in a host's load, for the same reason: a host that always receives counts as
/// if it sent that much more.
constexpr double kReceivePenalty = 0.6;
/// Shares of the limit's time for which a host sends. A host below kSpareThreshold yields receivers
/// to hosts above kUrgentThreshold.
constexpr double kSpareThreshold = 0.7;
constexpr double kUrgentThreshold = 0.9;
/// Ratio of a plan's time to the limit below which it is not improved further.
constexpr double kGoodRatio = 1.015;
/// Ratio of a plan's time to the limit below which random attempts are not made.
constexpr double kRandomSearchRatio = 1.025;
/// Time ratio below which another order replaces a regular one, which real links favour more than
/// the simulation shows.
constexpr double kMinImprovement = 0.99;
/// Time ratio below which another order replaces any other one.
constexpr double kReplaceRatio = 0.999;

/// Plans one demand. Lives for one call.
class WeftPlanner {
 public:
  WeftPlanner(const ReshardDemand& demand, const Topology& topology, const Network& network,
              const PlanOptions& options, const ReshardLimit& limit)
      : demand_(demand), topology_(topology), network_(network), options_(options), limit_(limit) {}

  WeftPlan run() {
    const std::vector<std::vector<std::uint64_t>> cuts = cuts_between_bundles();
    const TreeShape shape = choose_shape(cuts);
    const auto pieces = [&](SendPreference preference, double seconds) {
      return whole_pieces(demand_.data, cuts, network_, preference, seconds, shape);
    };
    if (demand_.data.size() == 1) evaluate_pieces(one_chain(shape));
    if (!best_.flows.empty() && !can_improve(kGoodRatio)) return finish();
    const std::vector<Piece> whole =
        pieces(SendPreference::kPreferHolders, limit_.seconds * kHolderTimeRatio);
    evaluate_pieces(whole);
    if (egress_seconds(demand_.data, network_, whole) > limit_.seconds * kGoodEnough)
      evaluate_pieces(fitted_pieces(demand_.data, network_, whole, limit_.seconds * 1.0005,
                                    kSmallestPiece, shape));
    if (can_improve(kGoodRatio))
      evaluate_pieces(fitted_pieces(
          demand_.data, network_,
          staircase_pieces(demand_.data, network_, whole, limit_.seconds * 1.0005, kSmallestPiece),
          limit_.seconds * 1.0005, kSmallestPiece, shape));
    if (can_improve(kGoodRatio))
      evaluate_pieces(pieces(SendPreference::kPreferHolders, limit_.seconds * 1.0005));
    if (can_improve(kGoodRatio))
      evaluate_pieces(pieces(SendPreference::kChains, limit_.seconds * 1.0005));
    if (can_improve(kGoodRatio)) {
      TreeShape relays;
      relays.single_relay = true;
      const std::vector<Piece> even = whole_pieces(demand_.data, even_cuts(), network_,
                                                   SendPreference::kEven, limit_.seconds, relays);
      evaluate_pieces(even);
      if (egress_seconds(demand_.data, network_, even) > limit_.seconds * kGoodEnough)
        evaluate_pieces(fitted_pieces(demand_.data, network_, even, limit_.seconds * 1.0005,
                                      kSmallestPiece, relays));
    }
    if (can_improve(kGoodRatio)) evaluate_pieces(pieces(SendPreference::kEven, limit_.seconds));
    // Latency-bound plans: holders send everything directly.
    if (can_improve(1.1))
      evaluate_pieces(
          pieces(SendPreference::kPreferHolders, std::numeric_limits<double>::infinity()));
    for (std::size_t i = kFirstAttempts;
         i < kMaxAttempts && can_improve(i < 5 ? kGoodRatio : kRandomSearchRatio); ++i)
      attempt(best_, attempt_number(i));
    return finish();
  }

 private:
  WeftPlan finish() const {
    return {parts_of(best_.flows, best_.order, best_.fine), best_.places, best_.seconds,
            best_.flows.size() <= kMaxFlowsToSchedule};
  }

  /// Returns the ends of each datum's bundles, except the last. Separate trees per bundle let
  /// different hosts come first.
  std::vector<std::vector<std::uint64_t>> cuts_between_bundles() const {
    std::vector<std::vector<std::uint64_t>> cuts(demand_.data.size());
    if (demand_.bundles.size() > kMaxPieces) return cuts;
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

  /// Returns cuts of each datum into as many pieces as it has hosts, unless pieces become too
  /// small.
  std::vector<std::vector<std::uint64_t>> even_cuts() const {
    std::vector<std::vector<std::uint64_t>> cuts(demand_.data.size());
    for (std::size_t k = 0; k < cuts.size(); ++k) {
      const HostDemand& datum = demand_.data[k];
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
    return whole_pieces(demand_.data, no_cuts, network_, SendPreference::kChains,
                        limit_.seconds * 1.0005, shape);
  }

  bool can_improve(double good_enough) const {
    return steps_ <= options_.simulate_steps && best_.seconds > limit_.seconds * good_enough;
  }

  /// Chooses chains of any length if filling them costs little. There are then enough data for
  /// every host to take every position, and each host sends to one host only, so that nothing
  /// collides. Otherwise chooses trees for data with many receivers.
  TreeShape choose_shape(std::span<const std::vector<std::uint64_t>> cuts) const {
    TreeShape shape;
    std::size_t longest = 0, pieces = 0;
    double slowest = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < demand_.data.size(); ++k) {
      longest = std::max(longest, demand_.data[k].receivers.size());
      pieces += cuts[k].size() + 1;
    }
    for (const Network::HostLinks& host : network_.hosts)
      slowest = std::min(slowest, host.egress());
    // Cost of filling: half a chain of chunks for each flow that a host has in flight.
    const double fill = 0.5 * longest * 64 * 1024 * kFlowsInFlight;
    if (pieces * 2 >= longest && fill <= 0.04 * limit_.seconds * slowest)
      shape.longest_chain = longest;
    return shape;
  }

  /// Bytes [begin, end) of a flow, sent by `root`.
  struct FlowPart {
    std::uint32_t flow;
    DeviceId root;
    std::uint64_t begin, end;
  };

  /// Flows of some pieces, and the best order found.
  struct OrderCandidate {
    /// Returns the cost by which candidates are compared.
    double cost() const { return seconds * (1 + kRelayPenalty * relayed); }

    std::vector<Flow> flows;
    /// Flows without details irrelevant to orders: segments, and fan-out inside hosts.
    std::vector<Flow> light;
    std::vector<std::vector<DeviceId>> roots;  ///< Per flow, the devices that can be its root.
    std::vector<FlowPart> order;
    std::vector<std::uint32_t> places;
    bool fine = false;  ///< True: smaller chunks for forwarded flows.
    double seconds = std::numeric_limits<double>::infinity();
    bool regular = true;  ///< True if the order is a regular one.
    double relayed = 0;   ///< Share of the bytes between hosts that relays send.
    /// Per host, share of the limit's time for which it sends; see kReceivePenalty.
    std::vector<double> busy;
    bool has_spare_sender = false;   ///< True if some sending host has time to spare.
    bool has_urgent_sender = false;  ///< True if also some other host has none.
    /// True if no order can meet the time: some host's sends alone exceed it.
    bool infeasible = false;
  };

  OrderCandidate candidate_of(const std::vector<Piece>& pieces) {
    OrderCandidate made;
    compute_loads(pieces, made);
    made.flows = flows_of(pieces, made.roots);
    for (Flow& flow : made.flows)
      if (is_urgent(made, topology_.host_of(flow.root)) && !options_.chunks) flow.window *= 2;
    steps_ += made.flows.size() * kStepsPerFlow;
    for (const Flow& flow : made.flows) {
      made.light.push_back(
          {flow.id, flow.kind, {}, flow.root, {}, flow.bytes, flow.chunk_bytes, flow.window});
      for (const FlowEdge& edge : flow.edges) {
        if (topology_.host_of(edge.parent) != topology_.host_of(edge.child))
          made.light.back().edges.push_back(edge);
      }
    }
    made.infeasible = egress_seconds(demand_.data, network_, pieces) > limit_.seconds * kGoodRatio;
    return made;
  }

  /// Computes the loads that `pieces` put on hosts.
  void compute_loads(const std::vector<Piece>& pieces, OrderCandidate& made) const {
    std::vector<double> sent(network_.num_hosts()), received(network_.num_hosts());
    double all = 0, held = 0;
    for (const Piece& piece : pieces) {
      const HostDemand& datum = demand_.data[piece.datum];
      const double bytes = piece.bytes;
      for (std::size_t i = 0; i < piece.degrees.size(); ++i) {
        const bool holds = i < datum.holders.size();
        const HostId host = holds ? datum.holders[i] : datum.receivers[i - datum.holders.size()];
        sent[host.value()] += bytes * piece.degrees[i] / network_.host(host).egress();
        if (!holds) received[host.value()] += bytes / network_.host(host).ingress();
        all += bytes * piece.degrees[i];
        if (holds) held += bytes * piece.degrees[i];
      }
    }
    made.relayed = all > 0 ? 1 - held / all : 0;
    made.busy.resize(sent.size());
    if (limit_.seconds <= 0) return;
    for (std::size_t host = 0; host < sent.size(); ++host)
      made.busy[host] =
          sent[host] / limit_.seconds * (1 + kReceivePenalty * received[host] / limit_.seconds);
    made.has_spare_sender = std::any_of(made.busy.begin(), made.busy.end(), [](double busy) {
      return busy > 0 && busy < kSpareThreshold;
    });
    made.has_urgent_sender =
        made.has_spare_sender && std::any_of(made.busy.begin(), made.busy.end(),
                                             [](double busy) { return busy > kUrgentThreshold; });
  }

  /// Returns true if the host has no time to spare while others have.
  static bool is_urgent(const OrderCandidate& candidate, HostId host) {
    return candidate.has_urgent_sender && candidate.busy[host.value()] > kUrgentThreshold;
  }

  /// Finds a good order for the flows of `pieces`, and replaces best_ if they are better.
  void evaluate_pieces(const std::vector<Piece>& pieces) {
    if (std::find(considered_.begin(), considered_.end(), pieces) != considered_.end()) return;
    considered_.push_back(pieces);
    OrderCandidate made = candidate_of(pieces);
    // Tries regular orders first. If nothing is forwarded, hosts take turns, so that no receiver is
    // flooded. Otherwise keeps the order of pieces (large ones first, equal ones in turns) and
    // interleaves their hosts.
    const bool direct = std::all_of(made.light.begin(), made.light.end(),
                                    [](const Flow& flow) { return flow.edges.size() <= 1; });
    std::vector<FlowPart> whole;
    for (const std::uint32_t i :
         direct ? rotated_order(made.light, topology_) : interleaved_order(made.light, topology_))
      whole.push_back({i, made.light[i].root, 0, made.light[i].bytes});
    evaluate_order(made, whole, egress_slots(made, {}, EgressLimit(), true), false);
    if (made.has_spare_sender && made.seconds > limit_.seconds * kGoodRatio)
      evaluate_order(made, whole, egress_slots(made, {}, EgressLimit(), false), false);
    // If nothing is forwarded, only hosts that flood its receivers can delay a host with no time to
    // spare.
    for (const bool yield : {true, false}) {
      if (yield && !(direct && made.has_urgent_sender)) continue;
      for (std::size_t i = 0; i < kFirstAttempts; ++i) {
        AttemptParameters how = attempt_number(i);
        how.yield = yield;
        attempt(made, how);
      }
    }
    if (made.cost() < best_.cost() * margin_over(best_)) best_ = std::move(made);
  }

  /// Returns the time ratio below which an alternative replaces `candidate`.
  double margin_over(const OrderCandidate& candidate) const {
    return candidate.regular && candidate.seconds <= limit_.seconds * kRandomSearchRatio
               ? kMinImprovement
               : kReplaceRatio;
  }

  void evaluate_order(OrderCandidate& candidate, const std::vector<FlowPart>& order,
                      const std::vector<std::uint32_t>& places, bool fine) {
    const double seconds =
        predict(parts_of(candidate.light, order, fine), topology_, network_, places, &steps_);
    if (seconds >= candidate.seconds * margin_over(candidate)) return;
    candidate.regular = candidate.order.empty();
    candidate.order = order;
    candidate.places = places;
    candidate.fine = fine;
    candidate.seconds = seconds;
  }

  /// Parameters of an attempt to order and cut flows by a preemptive schedule.
  struct AttemptParameters {
    double steps = 0;      ///< Number of steps into which the limit's time is divided.
    double sharpness = 0;  ///< PreemptOptions::sharpness; depth_weight likewise.
    double depth_weight = 0.05;
    std::uint64_t smallest_run = kSmallestRun;
    bool yield = false;          ///< Parameter of egress_slots().
    bool one_at_a_time = false;  ///< True: a device sends one flow at a time.
    bool fine = false;           ///< True: smaller chunks for forwarded flows.
    /// True: flows are first cut in two, so that a device can use both its slots for one receiver.
    bool halves = false;
  };
  static constexpr std::size_t kFirstAttempts = 2, kMaxAttempts = 96;

  AttemptParameters attempt_number(std::size_t i) {
    switch (i) {
      case 0: return {.steps = 32, .sharpness = 20};
      case 1: return {.steps = 48, .sharpness = 10, .one_at_a_time = true};
      case 2: return {.steps = 64, .sharpness = 10, .halves = true};
      case 3: return {.steps = 64, .sharpness = 20, .fine = true};
      case 4: return {.steps = 48, .sharpness = 5, .fine = true};
      default: break;
    }
    return {.steps = static_cast<double>(24 + random_.below(80)),
            .sharpness = static_cast<double>(3 + random_.below(30)),
            .depth_weight = 0.05 * random_.below(8),
            .smallest_run = kSmallestRun * (1 + random_.below(4)) / 2,
            .yield = random_.below(2) == 0,
            .one_at_a_time = random_.below(3) == 0,
            .fine = random_.below(2) == 0,
            .halves = random_.below(2) == 0};
  }

  void attempt(OrderCandidate& candidate, const AttemptParameters& how) {
    if (candidate.flows.size() > kMaxFlowsToSchedule || candidate.infeasible ||
        steps_ > options_.simulate_steps)
      return;
    if (candidate.seconds <= limit_.seconds * kGoodRatio) return;
    EgressLimit rule;
    if (how.one_at_a_time) rule.device_streams = 1;
    SimulateOptions options;
    options.send_slots = egress_slots(candidate, candidate.roots, rule, how.yield);
    if (how.one_at_a_time &&
        options.send_slots == egress_slots(candidate, candidate.roots, EgressLimit(), how.yield))
      return;
    std::vector<FlowPart> atoms;
    for (std::uint32_t i = 0; i < candidate.light.size(); ++i) {
      const Flow& flow = candidate.light[i];
      const std::uint64_t half = how.halves && flow.bytes >= 4 * how.smallest_run
                                     ? flow.bytes / 2 / kCutAlignment * kCutAlignment
                                     : 0;
      if (half > 0) atoms.push_back({i, flow.root, 0, half});
      atoms.push_back({i, flow.root, half, flow.bytes});
    }
    std::vector<std::vector<DeviceId>> roots;
    for (const FlowPart& atom : atoms) roots.push_back(candidate.roots[atom.flow]);
    const PreemptOptions preempt{limit_.seconds / how.steps, static_cast<double>(how.smallest_run),
                                 how.sharpness, how.depth_weight};
    options.resolution_seconds = preempt.step_seconds / 4;
    const PreemptiveSchedule schedule = preemptive_schedule(
        parts_of(candidate.light, atoms, how.fine), roots, topology_, network_, preempt, options);
    steps_ += schedule.steps;
    evaluate_order(candidate, parts_of_runs(atoms, schedule.runs), options.send_slots, how.fine);
  }

  /// Converts `runs` of `atoms` into parts of the atoms' flows.
  static std::vector<FlowPart> parts_of_runs(std::span<const FlowPart> atoms,
                                             std::span<const FlowRun> runs) {
    std::vector<FlowPart> parts;
    std::vector<FlowPart*> last(atoms.size());
    parts.reserve(runs.size());
    for (const FlowRun& run : runs) {
      const FlowPart& atom = atoms[run.flow];
      FlowPart part{atom.flow, run.root, atom.begin, atom.end};
      if (FlowPart* before = last[run.flow]; before != nullptr) {
        part.begin += static_cast<std::uint64_t>(run.begin) / kCutAlignment * kCutAlignment;
        if (part.begin <= before->begin) continue;
        before->end = part.begin;
      }
      last[run.flow] = &parts.emplace_back(part);
    }
    return parts;
  }

  /// Returns true if a host other than the root's forwards the flow to another host.
  bool is_forwarded_further(const Flow& flow) const {
    return std::any_of(flow.edges.begin(), flow.edges.end(), [&](const FlowEdge& edge) {
      const HostId from = topology_.host_of(edge.parent);
      return from != topology_.host_of(flow.root) && from != topology_.host_of(edge.child);
    });
  }

  std::vector<Flow> parts_of(const std::vector<Flow>& flows, std::span<const FlowPart> parts,
                             bool fine) const {
    std::vector<Flow> result;
    result.reserve(parts.size());
    for (const FlowPart& part : parts) {
      const Flow& whole = flows[part.flow];
      Flow flow = whole;
      flow.id = FlowId(result.size());
      flow.bytes = part.end - part.begin;
      for (FlowEdge& edge : flow.edges)
        if (edge.parent == whole.root) edge.parent = part.root;
      flow.root = part.root;
      if (fine && flow.chunk_bytes > kFineChunk && !options_.chunks && is_forwarded_further(flow))
        flow.chunk_bytes = std::max(kFineChunk, whole.chunk_bytes / 3 / 64 * 64);
      flow.chunk_bytes = std::min(flow.chunk_bytes, flow.bytes);
      if (flow.bytes != whole.bytes && !whole.segments.empty())
        flow.segments = cut(whole.segments, part.begin, flow.bytes);
      result.push_back(std::move(flow));
    }
    return result;
  }

  /// Returns the number of flows that each device sends at a time. The sending devices of a host
  /// share its slots. A host whose link is faster than its receivers' needs more slots. `yield`:
  /// hosts with time to spare get one slot per device, hosts with none get twice as many.
  std::vector<std::uint32_t> egress_slots(const OrderCandidate& candidate,
                                          std::span<const std::vector<DeviceId>> roots,
                                          const EgressLimit& rule, bool yield) const {
    const std::vector<Flow>& flows = candidate.light;
    std::vector<bool> sends(topology_.num_devices());
    std::vector<std::size_t> senders(topology_.num_hosts());
    std::vector<double> slowest(topology_.num_hosts(), std::numeric_limits<double>::infinity());
    const auto sender = [&](DeviceId device) {
      if (!sends[device.value()]) ++senders[topology_.host_of(device).value()];
      sends[device.value()] = true;
    };
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (!roots.empty() && !flows[i].edges.empty())
        std::for_each(roots[i].begin(), roots[i].end(), sender);
      for (const FlowEdge& edge : flows[i].edges) {
        const std::uint32_t host = topology_.host_of(edge.parent).value();
        sender(edge.parent);
        slowest[host] =
            std::min(slowest[host], network_.host(topology_.host_of(edge.child)).ingress());
      }
    }
    std::vector<std::uint32_t> places;
    for (std::uint32_t device = 0; device < sends.size(); ++device) {
      const std::uint32_t host = topology_.host_of(DeviceId(device)).value();
      std::size_t count = rule.limit_per_device(senders[host]);
      const double needed =
          std::min(std::ceil(network_.hosts[host].egress() / slowest[host] - 0.1), 8.0);
      if (needed > 1 && sends[device]) {
        const std::size_t streams = std::max(rule.host_streams, static_cast<std::size_t>(needed));
        count = std::max(
            count, std::min(rule.host_streams, (streams + senders[host] - 1) / senders[host]));
      }
      if (yield && needed <= 1 && candidate.busy[host] < kSpareThreshold) count = 1;
      if (yield && is_urgent(candidate, HostId(host)))
        count = std::max(count, std::min(rule.host_streams, 2 * count));
      places.push_back(count);
    }
    return places;
  }

  std::vector<Flow> flows_of(const std::vector<Piece>& pieces,
                             std::vector<std::vector<DeviceId>>& roots) {
    PlanBuilder draft(demand_, topology_, network_, options_);
    const std::vector<double> spare = spare_egress(pieces);
    for (std::size_t turn = 0; turn < pieces.size(); ++turn) {
      const Piece& piece = pieces[turn];
      for (const HostTree& tree :
           build_host_trees(demand_.data[piece.datum], piece, network_, spare, turn))
        add(draft, piece, tree);
    }
    for (const SliceGroup& bundle : demand_.bundles) draft.add_local(bundle);
    roots = draft.roots();
    return draft.finish(limit_.seconds);
  }

  std::vector<double> spare_egress(const std::vector<Piece>& pieces) const {
    const double seconds = std::max(limit_.seconds, egress_seconds(demand_.data, network_, pieces));
    std::vector<double> spare(network_.num_hosts(), 1.0);
    if (seconds <= 0) return spare;
    for (const Piece& piece : pieces) {
      const HostDemand& datum = demand_.data[piece.datum];
      for (std::size_t i = 0; i < piece.degrees.size(); ++i) {
        const HostId host =
            i < datum.holders.size() ? datum.holders[i] : datum.receivers[i - datum.holders.size()];
        spare[host.value()] -= static_cast<double>(piece.bytes) * piece.degrees[i] /
                               (network_.host(host).egress() * seconds);
      }
    }
    return spare;
  }

  /// Adds one flow for each bundle that overlaps the piece.
  void add(PlanBuilder& draft, const Piece& piece, const HostTree& tree) const {
    const std::uint64_t piece_end = piece.begin + piece.bytes,
                        datum_end = demand_.data[piece.datum].bytes;
    std::uint64_t begin = 0;
    for (const std::uint32_t index : demand_.bundles_of[piece.datum]) {
      const SliceGroup& bundle = demand_.bundles[index];
      const std::uint64_t from = cut_in(begin, bundle.bytes, piece.begin, datum_end),
                          to = cut_in(begin, bundle.bytes, piece_end, datum_end);
      begin += bundle.bytes;
      if (from >= to) continue;
      const DeviceId root = draft.sender_for(tree.root, bundle);
      draft.add(bundle, {from, to - from}, root, draft.edges_along(bundle, root, tree.edges));
    }
  }

  /// Returns the offset of a datum's cut in the bundle that begins at `begin`. Cuts close to an end
  /// of the bundle move there.
  static std::uint64_t cut_in(std::uint64_t begin, std::uint64_t bytes, std::uint64_t cut,
                              std::uint64_t datum_end) {
    if (cut <= begin) return 0;
    if (cut >= begin + bytes || cut >= datum_end) return bytes;
    const std::uint64_t inside = (cut - begin) / 64 * 64;
    if (inside < std::min(kSnapBytes, bytes)) return inside * 2 < bytes ? 0 : bytes;
    return bytes - inside < kSnapBytes ? bytes : inside;
  }

  const ReshardDemand& demand_;
  const Topology& topology_;
  const Network& network_;
  const PlanOptions& options_;
  const ReshardLimit& limit_;
  std::vector<std::vector<Piece>> considered_;
  PhiloxStream random_{options_.seed};
  std::uint64_t steps_ = 0;  ///< Simulation steps spent.
  OrderCandidate best_;
};

}  // namespace

WeftPlan plan_weft(const ReshardDemand& demand, const Topology& topology, const Network& network,
                   const PlanOptions& options, const LimitSolution& solution) {
  return WeftPlanner(demand, topology, network, options, solution.limit).run();
}

}  // namespace weft::transfer::internal

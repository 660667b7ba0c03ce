#include "transfer/reshard/internal/order_search.h"

#include <algorithm>
#include <span>
#include <utility>

#include "transfer/flow/egress_limit.h"
#include "transfer/flow/simulate.h"
#include "transfer/reshard/internal/egress_slots.h"
#include "transfer/reshard/internal/flow_order.h"
#include "transfer/reshard/internal/piece_flows.h"
#include "transfer/reshard/internal/predict.h"

namespace weft::transfer::internal {
namespace {

/// Length of the shortest runs into which flows are usually cut, in bytes.
constexpr std::uint64_t kSmallestRun = 128 * 1024;
/// Cost of making a flow, in simulation steps.
constexpr std::uint64_t kStepsPerFlow = 40;
/// Time ratio below which another order replaces a regular one, which real links favour more than
/// the simulation shows.
constexpr double kMinImprovement = 0.99;
/// Time ratio below which another order replaces any other one.
constexpr double kReplaceRatio = 0.999;

}  // namespace

struct OrderSearch::AttemptParameters {
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

double OrderCandidate::replace_ratio(double limit_seconds) const {
  return regular && seconds <= limit_seconds * kRandomSearchRatio ? kMinImprovement : kReplaceRatio;
}

OrderCandidate OrderSearch::order(const std::vector<Piece>& pieces) {
  OrderCandidate made = candidate_of(pieces);
  // Tries regular orders first. If nothing is forwarded, hosts take turns, so that no receiver is
  // flooded. Otherwise keeps the order of pieces (large ones first, equal ones in turns) and
  // interleaves their hosts.
  const bool direct = std::all_of(made.light.begin(), made.light.end(),
                                  [](const Flow& flow) { return flow.edges.size() <= 1; });
  std::vector<FlowPart> whole;
  for (const std::uint32_t i : direct ? rotated_order(made.light, problem_.topology)
                                      : interleaved_order(made.light, problem_.topology))
    whole.push_back({i, made.light[i].root, 0, made.light[i].bytes});
  evaluate_order(made, whole,
                 egress_slots(problem_, made.loads, made.light, {}, EgressLimit(), true), false);
  if (made.loads.has_spare_sender && made.seconds > problem_.limit.seconds * kGoodRatio)
    evaluate_order(made, whole,
                   egress_slots(problem_, made.loads, made.light, {}, EgressLimit(), false), false);
  // If nothing is forwarded, only hosts that flood its receivers can delay a host with no time to
  // spare.
  for (const bool yield : {true, false}) {
    if (yield && !(direct && made.loads.has_urgent_sender)) continue;
    for (std::size_t i = 0; i < kFirstAttempts; ++i) {
      AttemptParameters how = attempt_number(i);
      how.yield = yield;
      attempt(made, how);
    }
  }
  return made;
}

void OrderSearch::improve(OrderCandidate& candidate, std::size_t number) {
  attempt(candidate, attempt_number(number));
}

OrderCandidate OrderSearch::candidate_of(const std::vector<Piece>& pieces) {
  OrderCandidate made;
  made.loads = host_loads(problem_, pieces);
  PieceFlows built = flows_of(problem_, pieces);
  made.flows = std::move(built.flows);
  made.roots = std::move(built.roots);
  for (Flow& flow : made.flows)
    if (made.loads.is_urgent(problem_.topology.host_of(flow.root)) && !problem_.options.chunks)
      flow.window *= 2;
  steps_ += made.flows.size() * kStepsPerFlow;
  for (const Flow& flow : made.flows) {
    made.light.push_back(
        {flow.id, flow.kind, {}, flow.root, {}, flow.bytes, flow.chunk_bytes, flow.window});
    for (const FlowEdge& edge : flow.edges) {
      if (problem_.topology.host_of(edge.parent) != problem_.topology.host_of(edge.child))
        made.light.back().edges.push_back(edge);
    }
  }
  made.infeasible = egress_seconds(problem_.demand.data, problem_.network, pieces) >
                    problem_.limit.seconds * kGoodRatio;
  return made;
}

void OrderSearch::evaluate_order(OrderCandidate& candidate, const std::vector<FlowPart>& order,
                                 const std::vector<std::uint32_t>& places, bool fine) {
  const double seconds = predict(parts_of(problem_, candidate.light, order, fine),
                                 problem_.topology, problem_.network, places, &steps_);
  if (seconds >= candidate.seconds * candidate.replace_ratio(problem_.limit.seconds)) return;
  candidate.regular = candidate.order.empty();
  candidate.order = order;
  candidate.places = places;
  candidate.fine = fine;
  candidate.seconds = seconds;
}

OrderSearch::AttemptParameters OrderSearch::attempt_number(std::size_t i) {
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

void OrderSearch::attempt(OrderCandidate& candidate, const AttemptParameters& how) {
  if (candidate.flows.size() > kMaxFlowsToSchedule || candidate.infeasible || is_exhausted())
    return;
  if (candidate.seconds <= problem_.limit.seconds * kGoodRatio) return;
  EgressLimit rule;
  if (how.one_at_a_time) rule.device_streams = 1;
  SimulateOptions options;
  options.send_slots =
      egress_slots(problem_, candidate.loads, candidate.light, candidate.roots, rule, how.yield);
  if (how.one_at_a_time &&
      options.send_slots == egress_slots(problem_, candidate.loads, candidate.light,
                                         candidate.roots, EgressLimit(), how.yield))
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
  const PreemptOptions preempt{problem_.limit.seconds / how.steps,
                               static_cast<double>(how.smallest_run), how.sharpness,
                               how.depth_weight};
  options.resolution_seconds = preempt.step_seconds / 4;
  const PreemptiveSchedule schedule =
      preemptive_schedule(parts_of(problem_, candidate.light, atoms, how.fine), roots,
                          problem_.topology, problem_.network, preempt, options);
  steps_ += schedule.steps;
  evaluate_order(candidate, parts_of_runs(atoms, schedule.runs), options.send_slots, how.fine);
}

}  // namespace weft::transfer::internal

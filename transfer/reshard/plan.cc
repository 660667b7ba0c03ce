#include "transfer/reshard/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/units.h"
#include "transfer/reshard/internal/flow_order.h"
#include "transfer/reshard/internal/plan_builder.h"
#include "transfer/reshard/internal/predict.h"
#include "transfer/reshard/internal/strategies.h"
#include "transfer/reshard/internal/sums.h"
#include "transfer/reshard/internal/weft.h"
#include "transfer/reshard/plan_stats.h"

namespace weft::transfer {
namespace {

/// Bundle size. Small slices of many tensors travel together, but a strategy needs several bundles
/// to balance and order.
constexpr std::uint64_t kBundleBytes = std::uint64_t{1} << 20;

std::vector<Flow> flows_by(ReshardAlgorithm strategy, internal::PlanBuilder& draft,
                           double limit_seconds) {
  switch (strategy) {
    case ReshardAlgorithm::kSendRecv: internal::plan_send_recv(draft); break;
    case ReshardAlgorithm::kLocalAllgather: internal::plan_local_allgather(draft); break;
    case ReshardAlgorithm::kGlobalAllgather: internal::plan_global_allgather(draft); break;
    case ReshardAlgorithm::kBroadcastNaive: internal::plan_broadcast_naive(draft); break;
    case ReshardAlgorithm::kBroadcast: internal::plan_broadcast(draft); break;
    case ReshardAlgorithm::kBroadcastGreedy: internal::plan_broadcast_greedy(draft); break;
    case ReshardAlgorithm::kBroadcastSearch: internal::plan_broadcast_search(draft); break;
    case ReshardAlgorithm::kWeft: WEFT_CHECK(false, "weft has a planner of its own");
  }
  std::vector<Flow> flows = draft.finish(limit_seconds);
  if (strategy != ReshardAlgorithm::kSendRecv && strategy != ReshardAlgorithm::kLocalAllgather)
    return flows;
  // Point-to-point systems have all sends in flight at once. In the order of slices, all senders
  // would begin with the same receiver.
  const std::vector<std::uint32_t> order = internal::rotated_order(flows, draft.topology());
  return internal::reordered(std::move(flows), order);
}

/// Ratio of a plan's time to the limit below which other strategies are not tried.
constexpr double kGoodEnough = 1.02;
/// Time ratio below which another strategy replaces the plan. The simulator does not model every
/// advantage of an even plan.
constexpr double kMinImprovement = 0.97;

void plan_weft(ReshardPlan& plan, const internal::ReshardDemand& demand, const Network& network,
               const PlanOptions& options, const LimitSolution& solution) {
  internal::WeftPlan best = internal::plan_weft(demand, plan.topology, network, options, solution);
  plan.flows = std::move(best.flows);
  plan.egress_slots = std::move(best.egress_slots);
  plan.predicted_seconds = best.predicted_seconds;
  if (!best.compare || plan.predicted_seconds <= plan.limit.seconds * kGoodEnough) return;
  const internal::ReshardDemand units =
      internal::collect_demand(plan.tasks, plan.topology, kBundleBytes);
  // Rejects time savings that send more bytes over links, which other transfers may need.
  const std::uint64_t least_bytes = internal::wire_bytes(plan.flows, plan.topology);
  for (const ReshardAlgorithm other :
       {ReshardAlgorithm::kBroadcast, ReshardAlgorithm::kBroadcastGreedy,
        ReshardAlgorithm::kBroadcastNaive, ReshardAlgorithm::kBroadcastSearch,
        ReshardAlgorithm::kLocalAllgather, ReshardAlgorithm::kGlobalAllgather,
        ReshardAlgorithm::kSendRecv}) {
    internal::PlanBuilder draft(units, plan.topology, network, options);
    std::vector<Flow> flows = flows_by(other, draft, plan.limit.seconds);
    const double seconds = internal::predict(flows, plan.topology, network);
    if (seconds >= plan.predicted_seconds * kMinImprovement ||
        internal::wire_bytes(flows, plan.topology) > least_bytes)
      continue;
    plan.flows = std::move(flows);
    plan.egress_slots.clear();
    plan.predicted_seconds = seconds;
    plan.note =
        fmt::format("uses the flows of {}, which are faster in simulation", to_string(other));
  }
}

/// Adds the flows of tasks with addends to a plan for the other tasks. `others` are the data of
/// those tasks.
void add_sums(ReshardPlan& plan, const internal::SumDemand& sums,
              std::span<const HostDemand> others, const Network& network,
              const PlanOptions& options) {
  const ReshardLimit limit = internal::limit_of(sums, others, network);
  if (limit.seconds > plan.limit.seconds) plan.limit = limit;
  plan.minimum_between_hosts += sums.minimum_between_hosts;
  internal::SumFlows added = internal::plan_sums(sums, plan.topology, network, options,
                                                 plan.limit.seconds, plan.flows.size());
  std::vector<Flow> expected = plan.flows;
  expected.insert(expected.end(), added.as_trees.begin(), added.as_trees.end());
  plan.flows.insert(plan.flows.end(), added.flows.begin(), added.flows.end());
  // Egress slots were chosen without the sums, which would have to wait.
  plan.egress_slots.clear();
  plan.predicted_seconds = internal::predict(expected, added.topology, network);
}

}  // namespace

const Region* ReshardTask::source_region_of(DeviceId device) const {
  const Region* held = source.region_of(device);
  for (const ShardMap& addend : addends) {
    if (held == nullptr) held = addend.region_of(device);
  }
  return held;
}

ReshardPlan plan_reshard(std::span<const ReshardTask> tasks, const Topology& topology,
                         const Network& network, ReshardAlgorithm strategy,
                         const PlanOptions& options) {
  network.validate();
  if (network.num_hosts() < topology.num_hosts()) {
    throw_error(ErrorCode::kInvalidArgument,
                "the topology has {} hosts, but the network describes only {}",
                topology.num_hosts(), network.num_hosts());
  }
  ReshardPlan plan;
  plan.tasks.assign(tasks.begin(), tasks.end());
  plan.topology = topology;
  plan.strategy = strategy;
  const bool is_weft = strategy == ReshardAlgorithm::kWeft;
  internal::ReshardDemand demand =
      internal::collect_demand(plan.tasks, topology, is_weft ? ~std::uint64_t{0} : kBundleBytes);
  plan.copies = std::move(demand.copies);
  const LimitSolution solution = solve_limit(demand.data, network);
  plan.limit = solution.limit;
  plan.minimum_between_hosts = internal::minimum_between_hosts(demand);
  const internal::SumDemand sums = internal::collect_sums(plan.tasks, topology);
  if (is_weft) {
    plan_weft(plan, demand, network, options, solution);
  } else {
    internal::PlanBuilder draft(demand, topology, network, options);
    plan.flows = flows_by(strategy, draft, plan.limit.seconds);
    plan.predicted_seconds = internal::predict(plan.flows, topology, network);
  }
  if (!sums.chains.empty()) add_sums(plan, sums, demand.data, network, options);
  return plan;
}

ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology, const Network& network,
                         ReshardAlgorithm strategy, const PlanOptions& options) {
  return plan_reshard(std::span(&task, 1), topology, network, strategy, options);
}

ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology,
                         ReshardAlgorithm strategy) {
  return plan_reshard(task, topology, Network::uniform(topology.num_hosts(), 125e6), strategy);
}

ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology,
                         ReshardAlgorithm strategy, const ChunkOptions& chunks) {
  PlanOptions options;
  options.chunks = chunks;
  return plan_reshard(task, topology, Network::uniform(topology.num_hosts(), 125e6), strategy,
                      options);
}

DevicePart ReshardPlan::device_part(DeviceId device) const {
  DevicePart part;
  part.device = device;
  for (const ReshardTask& task : tasks) {
    TensorPart& tensor = part.tensors.emplace_back();
    tensor.dtype = task.type.dtype;
    if (const Region* region = task.source_region_of(device)) tensor.source = *region;
    if (const Region* region = task.destination.region_of(device)) tensor.destination = *region;
  }
  for (const LocalCopy& copy : copies) {
    if (copy.device == device) part.copies.push_back({copy.tensor, copy.region});
  }
  part.streams = flow_roles_of(flows, device);
  for (FlowRole& stream : part.streams) {
    // All maps cut the slices, so a destination contains all of a segment or nothing.
    const auto wanted = [&](const Segment& segment) {
      const auto& destination = part.tensors[segment.tensor].destination;
      return destination && destination->contains(segment.region);
    };
    const bool last = stream.adds_own_term() && (stream.children.empty() || stream.result);
    stream.stores_sum = last && wanted(stream.segments.front());
  }
  if (!egress_slots.empty()) part.egress_slots = egress_slots.at(device.value());
  return part;
}

std::vector<DeviceId> ReshardPlan::devices() const {
  std::set<DeviceId> devices;
  for (const LocalCopy& copy : copies) devices.insert(copy.device);
  for (const Flow& flow : flows) {
    for (const FlowEdge& edge : flow.edges) {
      devices.insert(edge.parent);
      devices.insert(edge.child);
    }
  }
  return {devices.begin(), devices.end()};
}

std::string ReshardPlan::digest() const { return sha256(encode(*this)); }

std::string to_string(const ReshardPlan& plan) {
  std::string text = plan.tasks.size() == 1 ? to_string(plan.tasks.front().type)
                                            : fmt::format("{} tensors", plan.tasks.size());
  text += fmt::format(" by {}: {}", to_string(plan.strategy), to_string(plan_stats(plan)));
  text += fmt::format("\n  limit {}", to_string(plan.limit));
  if (plan.limit.seconds > 0) {
    text += fmt::format(", predicted {} ({:.2f} of the limit's speed)",
                        format_seconds(plan.predicted_seconds),
                        plan.limit.seconds / plan.predicted_seconds);
  }
  if (!plan.note.empty()) text += "; " + plan.note;
  for (const Flow& flow : plan.flows) text += "\n  " + to_string(flow);
  for (const LocalCopy& copy : plan.copies)
    text += fmt::format("\n  device {} copies {}", copy.device,
                        to_string(Segment{copy.tensor, copy.region, 0, 0}));
  return text;
}

}  // namespace weft::transfer

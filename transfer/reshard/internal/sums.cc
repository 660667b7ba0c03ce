#include "transfer/reshard/internal/sums.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "transfer/reshard/internal/plan_builder.h"
#include "transfer/reshard/internal/reshard_demand.h"
#include "transfer/reshard/slices.h"
#include "transfer/reshard/tree.h"

namespace weft::transfer::internal {
namespace {

bool is_among(const std::vector<HostId>& hosts, HostId host) {
  return std::binary_search(hosts.begin(), hosts.end(), host);
}

void check_sum(const ReshardTask& task, const Topology& topology) {
  if (task.type.dtype == DType::kU8)
    throw_error(ErrorCode::kInvalidArgument, "{} cannot be summed; use f32, bf16, f64 or i32",
                to_string(task.type));
  if (task.source.shape != task.type.shape) {
    throw_error(ErrorCode::kInvalidArgument, "a sum of {} has a source map of shape {}",
                to_string(task.type), weft::to_string(task.source.shape));
  }
  const auto check = [&](const ShardMap& map) {
    for (const Shard& shard : map.shards) topology.host_of(shard.device);
  };
  check(task.source);
  check(task.destination);
  for (const ShardMap& addend : task.addends) check(addend);
}

/// Cost of a choice of holders: changes of host, then bytes that the hosts already send, then bytes
/// that the devices already send.
using Cost = std::tuple<std::size_t, std::uint64_t, std::uint64_t>;

/// Returns a holder of each term, on the cheapest path through all terms to a receiver.
std::vector<DeviceId> choose_chain(const SumSlice& slice, const Topology& topology,
                                   const transfer::Loads& loads) {
  struct ChainStep {
    Cost cost;
    std::size_t before;
  };
  const std::size_t terms = slice.holders.size();
  const std::vector<HostId> wanting = hosts_of(slice.receivers, topology);
  std::vector<std::vector<ChainStep>> steps(terms);
  for (std::size_t term = 0; term < terms; ++term) {
    for (const DeviceId device : slice.holders[term]) {
      const HostId host = topology.host_of(device);
      ChainStep best{{0, 0, 0}, 0};
      for (std::size_t i = 0; term > 0 && i < steps[term - 1].size(); ++i) {
        Cost cost = steps[term - 1][i].cost;
        std::get<0>(cost) += topology.host_of(slice.holders[term - 1][i]) == host ? 0 : 1;
        if (i == 0 || cost < best.cost) best = {cost, i};
      }
      if (term + 1 == terms && !is_among(wanting, host)) ++std::get<0>(best.cost);
      std::get<1>(best.cost) += loads.host_egress[host.value()];
      std::get<2>(best.cost) += loads.device_egress[device.value()];
      steps[term].push_back(best);
    }
  }
  std::size_t at =
      std::min_element(steps.back().begin(), steps.back().end(),
                       [](const ChainStep& a, const ChainStep& b) { return a.cost < b.cost; }) -
      steps.back().begin();
  std::vector<DeviceId> chain(terms);
  for (std::size_t term = terms; term-- > 0;) {
    chain[term] = slice.holders[term][at];
    at = steps[term][at].before;
  }
  return chain;
}

std::vector<FlowEdge> chain_edges(const std::vector<DeviceId>& devices) {
  std::vector<FlowEdge> edges;
  for (std::size_t i = 1; i < devices.size(); ++i) edges.push_back({devices[i - 1], devices[i]});
  return edges;
}

class SumCollector {
 public:
  explicit SumCollector(const Topology& topology) : topology_(topology), loads_(topology) {}

  void add(std::uint32_t tensor, const ReshardTask& task) {
    check_sum(task, topology_);
    for (const SumSlice& slice : cut_sum_slices(task.source, task.addends, task.destination)) {
      const Segment segment = Segment::whole(tensor, slice.region, size_of(task.type.dtype));
      bound(slice, segment.bytes);
      const std::vector<DeviceId> devices = choose_chain(slice, topology_, loads_);
      loads_.add(topology_, chain_edges(devices), segment.bytes);
      // All chunks of a flow have one type.
      const auto [at, fresh] =
          open_.try_emplace({devices, slice.receivers, task.type.dtype}, sums_.chains.size());
      if (fresh) sums_.chains.push_back({devices, slice.receivers, task.type.dtype, {}, 0});
      SumChain& chain = sums_.chains[at->second];
      chain.segments.push_back(segment);
      chain.bytes += segment.bytes;
    }
  }

  SumDemand finish() && { return std::move(sums_); }

 private:
  /// Records lower bounds of all plans.
  void bound(const SumSlice& slice, std::uint64_t bytes) {
    const std::vector<HostId> wanting = hosts_of(slice.receivers, topology_);
    std::vector<DeviceId> all;
    std::vector<HostId> sole_holders;  // hosts that are the only ones to hold some term
    for (const std::vector<DeviceId>& holders : slice.holders) {
      all.insert(all.end(), holders.begin(), holders.end());
      const std::vector<HostId> hosts = hosts_of(holders, topology_);
      if (hosts.size() == 1) sole_holders.push_back(hosts.front());
    }
    std::sort(sole_holders.begin(), sole_holders.end());
    sole_holders.erase(std::unique(sole_holders.begin(), sole_holders.end()), sole_holders.end());
    const bool share =
        std::ranges::any_of(sole_holders, [&](HostId h) { return is_among(wanting, h); });
    sums_.minimum_between_hosts += bytes * (sole_holders.size() + wanting.size() - (share ? 2 : 1));
    std::erase_if(sole_holders, [&](HostId host) { return is_among(wanting, host); });
    sums_.mirrored.push_back({bytes, wanting, sole_holders});
    const std::vector<HostId> holding = hosts_of(all, topology_);
    std::vector<HostId> without;
    for (const HostId host : wanting) {
      if (!is_among(holding, host)) without.push_back(host);
    }
    sums_.spread.push_back({bytes, holding, without});
  }

  const Topology& topology_;
  transfer::Loads loads_;
  SumDemand sums_;
  std::map<std::tuple<std::vector<DeviceId>, std::vector<DeviceId>, DType>, std::size_t> open_;
};

Network mirrored(Network network) {
  for (Network::HostLinks& host : network.hosts) {
    for (Nic& nic : host.nics) std::swap(nic.egress, nic.ingress);
  }
  return network;
}

LimitingResource mirrored(LimitingResource bound) {
  switch (bound) {
    case LimitingResource::kNone: break;
    case LimitingResource::kIngress: return LimitingResource::kEgress;
    case LimitingResource::kEgress: return LimitingResource::kIngress;
  }
  return bound;
}

/// Devices that appear twice in a flow, and their stand-ins.
class DeviceAliases {
 public:
  explicit DeviceAliases(Topology& topology)
      : topology_(topology), first_(topology.num_devices()) {}

  DeviceId of(DeviceId device) {
    const auto [at, fresh] = stand_ins_.try_emplace(device, topology_.num_devices());
    if (fresh) {
      topology_.host_of_device.push_back(topology_.host_of(device));
      devices_.push_back(device);
    }
    return at->second;
  }
  DeviceId original(DeviceId device) const {
    return device.value() < first_ ? device : devices_[device.value() - first_];
  }

 private:
  Topology& topology_;
  const std::size_t first_;
  std::map<DeviceId, DeviceId> stand_ins_;
  std::vector<DeviceId> devices_;
};

/// Returns the devices that get the sum from the last device of a chain.
std::vector<DeviceId> others_of(const SumChain& chain) {
  std::vector<DeviceId> others = chain.receivers;
  std::erase(others, chain.devices.back());
  return others;
}

}  // namespace

SumDemand collect_sums(std::span<const ReshardTask> tasks, const Topology& topology) {
  SumCollector collector(topology);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!tasks[i].addends.empty()) collector.add(i, tasks[i]);
  }
  return std::move(collector).finish();
}

ReshardLimit limit_of(const SumDemand& sums, std::span<const HostDemand> others,
                      const Network& network) {
  ReshardLimit gathering = physical_limit(sums.mirrored, mirrored(network));
  gathering.bound = mirrored(gathering.bound);
  std::vector<HostDemand> all(others.begin(), others.end());
  all.insert(all.end(), sums.spread.begin(), sums.spread.end());
  const ReshardLimit spreading = physical_limit(all, network);
  return spreading.seconds > gathering.seconds ? spreading : gathering;
}

SumFlows plan_sums(const SumDemand& sums, const Topology& topology, const Network& network,
                   const PlanOptions& options, double limit_seconds, std::size_t first_id) {
  SumFlows result;
  result.topology = topology;
  DeviceAliases stand_ins(result.topology);
  std::vector<std::vector<DeviceId>> receivers;  // per chain, with stand-ins
  for (const SumChain& chain : sums.chains) {
    for (DeviceId& device : receivers.emplace_back(others_of(chain))) {
      if (std::ranges::find(chain.devices, device) != chain.devices.end())
        device = stand_ins.of(device);
    }
  }
  const ReshardDemand none;
  PlanBuilder draft(none, result.topology, network, options);
  for (std::size_t i = 0; i < sums.chains.size(); ++i) {
    const SumChain& chain = sums.chains[i];
    std::vector<FlowEdge> edges = chain_edges(chain.devices);
    const std::vector<FlowEdge> tree =
        broadcast_tree(chain.devices.back(), receivers[i], result.topology, draft.loads());
    edges.insert(edges.end(), tree.begin(), tree.end());
    const SliceGroup bundle{{chain.devices.front()}, {},
                            chain.segments,          chain.bytes,
                            size_of(chain.dtype),    SliceGroup::kNoDatum};
    draft.add(bundle, chain.devices.front(), std::move(edges));
  }
  result.as_trees = draft.finish(limit_seconds);
  for (std::size_t i = 0; i < sums.chains.size(); ++i) {
    const std::size_t hops = sums.chains[i].devices.size() - 1;
    Flow& tree = result.as_trees[i];
    Flow sum = tree, spread = tree;
    sum.kind = FlowKind::kSum;
    sum.id = FlowId(first_id + result.flows.size());
    sum.edges.resize(hops);
    tree.id = sum.id;
    result.flows.push_back(std::move(sum));
    if (tree.edges.size() == hops) continue;
    spread.kind = FlowKind::kResult;
    spread.id = FlowId(first_id + result.flows.size());
    spread.root = sums.chains[i].devices.back();
    spread.edges.erase(spread.edges.begin(), spread.edges.begin() + static_cast<long>(hops));
    for (FlowEdge& edge : spread.edges)
      edge = {stand_ins.original(edge.parent), stand_ins.original(edge.child)};
    result.flows.push_back(std::move(spread));
  }
  return result;
}

}  // namespace weft::transfer::internal

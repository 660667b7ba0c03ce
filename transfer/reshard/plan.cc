#include "transfer/reshard/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/units.h"
#include "transfer/reshard/plan_stats.h"
#include "transfer/reshard/slices.h"
#include "transfer/reshard/tree.h"

namespace weft::transfer {
namespace {

/// Makes the flows of one plan. Lives for one call of plan_reshard.
class Planner {
 public:
  Planner(ReshardPlan& plan, const ChunkOptions& options)
      : plan_(plan), options_(options), element_size_(size_of(plan.tasks.front().type.dtype)), loads_(plan.topology) {}

  void add(const Slice& slice) {
    switch (plan_.strategy) {
      case Strategy::kSendRecv: return add_send_recv(slice);
      case Strategy::kLocalAllgather: return add_local_allgather(slice);
      case Strategy::kBroadcast: return add_broadcast(slice);
    }
  }

 private:
  void add_flow(const Region& region, DeviceId root, std::vector<FlowEdge> edges) {
    Flow flow{FlowId(static_cast<std::uint32_t>(plan_.flows.size())),
              FlowKind::kDeliver,
              {Segment::whole(0, region, element_size_)},
              root,
              std::move(edges),
              0,
              0,
              0};
    set_chunks(flow, element_size_, options_);
    loads_.add(plan_.topology, flow.edges, flow.bytes);
    plan_.flows.push_back(std::move(flow));
  }

  std::vector<DeviceId> on_host(const std::vector<DeviceId>& devices, HostId host) const {
    std::vector<DeviceId> result;
    for (const DeviceId device : devices) {
      if (plan_.topology.host_of(device) == host) result.push_back(device);
    }
    return result;
  }

  /// A holder on the receiver's own host if there is one: those bytes cross no wire.
  DeviceId sender_for(HostId host, const std::vector<DeviceId>& holders) const {
    const std::vector<DeviceId> near = on_host(holders, host);
    return least_loaded_holder(near.empty() ? holders : near, plan_.topology, loads_);
  }

  void add_send_recv(const Slice& slice) {
    for (const DeviceId receiver : slice.wanters) {
      const DeviceId sender = sender_for(plan_.topology.host_of(receiver), slice.holders);
      add_flow(slice.region, sender, {{sender, receiver}});
    }
  }

  void add_local_allgather(const Slice& slice) {
    const HostId host = plan_.topology.host_of(slice.wanters.front());
    const bool one_host = on_host(slice.wanters, host).size() == slice.wanters.size();
    if (!one_host || slice.wanters.size() == 1) return add_send_recv(slice);
    const std::vector<Region> pieces = split(slice.region, slice.wanters.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const DeviceId sender = sender_for(host, slice.holders);
      const DeviceId first = slice.wanters[i % slice.wanters.size()];
      std::vector<FlowEdge> edges = {{sender, first}};
      for (const DeviceId other : slice.wanters) {
        if (other != first) edges.push_back({first, other});
      }
      add_flow(pieces[i], sender, std::move(edges));
    }
  }

  void add_broadcast(const Slice& slice) {
    // Hosts with a holder of their own are served from it; the others share one flow, whose root serves its own host too.
    std::set<HostId> holder_hosts;
    for (const DeviceId holder : slice.holders) holder_hosts.insert(plan_.topology.host_of(holder));
    std::vector<DeviceId> remote;
    std::map<HostId, std::vector<DeviceId>> local;
    for (const DeviceId wanter : slice.wanters) {
      const HostId host = plan_.topology.host_of(wanter);
      if (holder_hosts.contains(host)) local[host].push_back(wanter);
      else remote.push_back(wanter);
    }
    if (!remote.empty()) {
      const DeviceId root = least_loaded_holder(slice.holders, plan_.topology, loads_);
      if (const auto own = local.find(plan_.topology.host_of(root)); own != local.end()) {
        remote.insert(remote.end(), own->second.begin(), own->second.end());
        local.erase(own);
      }
      add_flow(slice.region, root, broadcast_tree(root, remote, plan_.topology, loads_));
    }
    for (const auto& [host, wanters] : local) {
      const DeviceId root = sender_for(host, slice.holders);
      add_flow(slice.region, root, broadcast_tree(root, wanters, plan_.topology, loads_));
    }
  }

  /// At most `count` boxes of nearly equal size, cut along the outermost dimension that is long enough, else the longest.
  static std::vector<Region> split(const Region& region, std::size_t count) {
    const auto wanted = static_cast<std::int64_t>(count);
    std::size_t dimension = 0;
    for (std::size_t i = 0; i < region.rank(); ++i) {
      if (region[dimension].size() >= wanted) break;
      if (region[i].size() > region[dimension].size()) dimension = i;
    }
    if (region.rank() == 0) return {region};
    const std::int64_t size = region[dimension].size(), pieces = std::min(wanted, size);
    std::vector<Region> result;
    for (std::int64_t i = 0; i < pieces; ++i) {
      std::vector<Interval> intervals(region.intervals().begin(), region.intervals().end());
      intervals[dimension] = {region[dimension].begin + size * i / pieces, region[dimension].begin + size * (i + 1) / pieces};
      result.emplace_back(std::move(intervals));
    }
    return result;
  }

  ReshardPlan& plan_;
  const ChunkOptions& options_;
  const std::size_t element_size_;
  Loads loads_;
};

}  // namespace

ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology, Strategy strategy, const ChunkOptions& options) {
  if (task.source.shape != task.type.shape) {
    throw_error(ErrorCode::kInvalidArgument, "a resharding of {} has a source map of shape {}", to_string(task.type),
                weft::to_string(task.source.shape));
  }
  for (const ShardMap* map : {&task.source, &task.destination}) {
    for (const Shard& shard : map->shards) topology.host_of(shard.device);
  }
  ReshardPlan plan{{task}, topology, strategy, {}, {}};
  const std::vector<Slice> slices = cut_slices(task.source, task.destination);
  for (const Slice& slice : slices) {
    for (const DeviceId device : slice.local) plan.copies.push_back({device, 0, slice.region});
  }
  // Slices with few holders first, since they have no choice of sender; then the large ones, which are hardest to balance.
  std::vector<std::size_t> order(slices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(slices[a].holders.size(), -slices[a].region.num_elements()) <
           std::tuple(slices[b].holders.size(), -slices[b].region.num_elements());
  });
  Planner planner(plan, options);
  for (const std::size_t i : order) {
    if (!slices[i].wanters.empty()) planner.add(slices[i]);
  }
  return plan;
}

DevicePart ReshardPlan::device_part(DeviceId device) const {
  DevicePart part;
  part.device = device;
  for (const ReshardTask& task : tasks) {
    TensorPart& tensor = part.tensors.emplace_back();
    tensor.dtype = task.type.dtype;
    if (const Region* region = task.source.region_of(device)) tensor.source = *region;
    if (const Region* region = task.destination.region_of(device)) tensor.destination = *region;
  }
  for (const LocalCopy& copy : copies) {
    if (copy.device == device) part.copies.push_back({copy.tensor, copy.region});
  }
  part.streams = streams_of(flows, device);
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
  std::string text = plan.tasks.size() == 1 ? to_string(plan.tasks.front().type) : fmt::format("{} tensors", plan.tasks.size());
  text += fmt::format(" by {}: {}", to_string(plan.strategy), to_string(plan_stats(plan)));
  for (const Flow& flow : plan.flows) text += "\n  " + to_string(flow);
  for (const LocalCopy& copy : plan.copies)
    text += fmt::format("\n  device {} copies {}", copy.device, to_string(Segment{copy.tensor, copy.region, 0, 0}));
  return text;
}

}  // namespace weft::transfer

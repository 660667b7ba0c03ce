#include "transfer/reshard/internal/reshard_demand.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/base/error.h"
#include "transfer/reshard/internal/task_hash.h"
#include "transfer/reshard/slices.h"

namespace weft::transfer::internal {
namespace {

void check_task(const ReshardTask& task, const Topology& topology) {
  if (task.source.shape != task.type.shape) {
    throw_error(ErrorCode::kInvalidArgument, "a resharding of {} has a source map of shape {}",
                to_string(task.type), weft::to_string(task.source.shape));
  }
  for (const ShardMap* map : {&task.source, &task.destination}) {
    for (const Shard& shard : map->shards) topology.host_of(shard.device);
  }
}

/// Holders and receivers of a slice. Bundles are keyed by them.
using Devices = std::pair<std::vector<DeviceId>, std::vector<DeviceId>>;

class DemandCollector {
 public:
  DemandCollector(const Topology& topology, std::uint64_t bundle_bytes)
      : topology_(topology), bundle_bytes_(bundle_bytes) {}

  void add(std::uint32_t tensor, const ReshardTask& task) {
    const Cut& cut = cut_of(task);
    const std::size_t element = size_of(task.type.dtype);
    for (std::size_t i = 0; i < cut.slices.size(); ++i) {
      const Slice& slice = cut.slices[i];
      for (const DeviceId device : slice.local)
        demand_.copies.push_back({device, tensor, slice.region});
      if (slice.receivers.empty()) continue;
      std::uint32_t& open = open_[cut.keys[i]];
      if (open == kNone || demand_.bundles[open].bytes >= bundle_bytes_) {
        open = demand_.bundles.size();
        demand_.bundles.push_back({slice.holders, slice.receivers, {}, 0, element});
      }
      SliceGroup& bundle = demand_.bundles[open];
      bundle.segments.push_back(Segment::whole(tensor, slice.region, element));
      bundle.bytes += bundle.segments.back().bytes;
    }
  }

  ReshardDemand finish() {
    merge_data(demand_, topology_);
    return std::move(demand_);
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  /// Slices of a task and, per slice, the index into open_ of its devices. Shared by equal tasks,
  /// since models have many tensors of few kinds.
  struct Cut {
    const ReshardTask* task;
    std::vector<Slice> slices;
    std::vector<std::uint32_t> keys;
  };

  const Cut& cut_of(const ReshardTask& task) {
    std::vector<std::size_t>& alike = cuts_by_hash_[hash_of(task)];
    for (const std::size_t i : alike) {
      const ReshardTask& other = *cuts_[i].task;
      if (other.source == task.source && other.destination == task.destination &&
          other.type.shape == task.type.shape)
        return cuts_[i];
    }
    check_task(task, topology_);
    Cut cut{&task, cut_slices(task.source, task.destination), {}};
    for (const Slice& slice : cut.slices) {
      const auto [key, fresh] = keys_.try_emplace({slice.holders, slice.receivers}, open_.size());
      if (fresh) open_.push_back(kNone);
      cut.keys.push_back(key->second);
    }
    alike.push_back(cuts_.size());
    return cuts_.emplace_back(std::move(cut));
  }

  const Topology& topology_;
  const std::uint64_t bundle_bytes_;
  ReshardDemand demand_;
  std::vector<Cut> cuts_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> cuts_by_hash_;
  std::map<Devices, std::uint32_t> keys_;
  std::vector<std::uint32_t> open_;  ///< Per key, the bundle that accepts more slices.
};

}  // namespace

ReshardDemand collect_demand(std::span<const ReshardTask> tasks, const Topology& topology,
                             std::uint64_t bundle_bytes) {
  DemandCollector collector(topology, bundle_bytes);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].addends.empty()) collector.add(i, tasks[i]);
  }
  return collector.finish();
}

void merge_data(ReshardDemand& demand, const Topology& topology) {
  std::map<std::pair<std::vector<HostId>, std::vector<HostId>>, std::uint32_t> data;
  for (std::uint32_t i = 0; i < demand.bundles.size(); ++i) {
    SliceGroup& bundle = demand.bundles[i];
    std::vector<HostId> holders = hosts_of(bundle.holders, topology),
                        receivers = hosts_of(bundle.receivers, topology);
    std::erase_if(receivers, [&](HostId host) {
      return std::binary_search(holders.begin(), holders.end(), host);
    });
    if (receivers.empty()) continue;
    const auto [datum, fresh] =
        data.try_emplace({std::move(holders), std::move(receivers)}, demand.data.size());
    bundle.datum = datum->second;
    if (fresh) {
      demand.data.push_back({0, datum->first.first, datum->first.second});
      demand.bundles_of.emplace_back();
    }
    demand.data[bundle.datum].bytes += bundle.bytes;
    demand.bundles_of[bundle.datum].push_back(i);
  }
}

std::uint64_t minimum_between_hosts(const ReshardDemand& demand) {
  std::uint64_t bytes = 0;
  for (const HostDemand& datum : demand.data) bytes += datum.bytes * datum.receivers.size();
  return bytes;
}

std::vector<HostId> hosts_of(const std::vector<DeviceId>& devices, const Topology& topology) {
  std::vector<HostId> hosts;
  for (const DeviceId device : devices) hosts.push_back(topology.host_of(device));
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return hosts;
}

std::vector<DeviceId> on_host(const std::vector<DeviceId>& devices, HostId host,
                              const Topology& topology) {
  std::vector<DeviceId> result;
  for (const DeviceId device : devices) {
    if (topology.host_of(device) == host) result.push_back(device);
  }
  return result;
}

std::vector<Segment> cut(std::span<const Segment> segments, std::uint64_t begin,
                         std::uint64_t bytes) {
  std::vector<Segment> result;
  const std::uint64_t end = begin + bytes;
  std::uint64_t at = 0;
  for (const Segment& segment : segments) {
    const std::uint64_t from = std::max(begin, at), to = std::min(end, at + segment.bytes);
    if (from < to)
      result.push_back({segment.tensor, segment.region, segment.begin + (from - at), to - from});
    at += segment.bytes;
    if (at >= end) break;
  }
  return result;
}

std::vector<ByteRange> even_pieces(std::uint64_t bytes, std::size_t count) {
  std::vector<ByteRange> pieces;
  std::uint64_t begin = 0;
  for (std::size_t i = 1; i <= count; ++i) {
    const std::uint64_t end = i == count ? bytes : bytes / count * i / 64 * 64;
    if (end > begin) pieces.push_back({begin, end - begin});
    begin = std::max(begin, end);
  }
  return pieces;
}

}  // namespace weft::transfer::internal

#include "transfer/reshard/repair.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/units.h"
#include "transfer/reshard/internal/reshard_demand.h"
#include "transfer/reshard/internal/weft.h"

namespace weft::transfer {
namespace {

bool contains(std::span<const DeviceId> devices, DeviceId device) {
  return std::find(devices.begin(), devices.end(), device) != devices.end();
}

ShardMap without(const ShardMap& map, std::span<const DeviceId> dead) {
  ShardMap result{map.shape, {}};
  for (const Shard& shard : map.shards) {
    if (!contains(dead, shard.device)) result.shards.push_back(shard);
  }
  return result;
}

}  // namespace

void Repair::insert(Ranges& ranges, ByteInterval range) {
  auto first = std::find_if(ranges.begin(), ranges.end(),
                            [&](const ByteInterval& other) { return other.end >= range.begin; });
  auto last = first;
  for (; last != ranges.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  ranges.insert(ranges.erase(first, last), range);
}

Repair::Repair(const ReshardPlan& plan)
    : tasks_(plan.tasks), topology_(plan.topology), copies_(plan.copies) {
  if (std::ranges::any_of(tasks_, [](const ReshardTask& task) { return !task.addends.empty(); })) {
    throw_error(ErrorCode::kInvalidArgument,
                "a plan with sums cannot be repaired, because the dead device held a term. Run the "
                "whole plan again once another device holds that term");
  }
  for (const Flow& flow : plan.flows) {
    for (const Segment& segment : flow.segments) {
      const auto [cargo, fresh] = cargos_.try_emplace(RegionKey{segment.tensor, segment.region});
      if (fresh) {
        for (const Shard& shard : tasks_.at(segment.tensor).source.shards) {
          if (shard.region.contains(segment.region)) cargo->second.holders.push_back(shard.device);
        }
      }
      for (const FlowEdge& edge : flow.edges)
        insert(cargo->second.wanted[edge.child], {segment.begin, segment.begin + segment.bytes});
    }
  }
}

void Repair::add(const ReshardPlan& plan, std::span<const LandedReport> landed) {
  for (const LandedReport& report : landed) {
    for (const LandedChunks& chunks : report.flows) {
      const std::size_t index = chunks.flow.value();
      const std::uint64_t expected =
          index < plan.flows.size()
              ? (plan.flows[index].bytes + plan.flows[index].chunk_bytes - 1) /
                    plan.flows[index].chunk_bytes
              : 0;
      if (chunks.num_chunks != expected) {
        throw_error(
            ErrorCode::kInvalidArgument,
            "device {} reports {} chunks of flow {}, which has {}: the report is of another plan",
            report.device, chunks.num_chunks, chunks.flow, expected);
      }
      const Flow& flow = plan.flows[index];
      for (std::uint32_t first = 0; first < chunks.num_chunks;) {
        if (!chunks.has(first)) {
          ++first;
          continue;
        }
        std::uint32_t last = first + 1;
        while (last < chunks.num_chunks && chunks.has(last)) ++last;
        const std::uint64_t begin = first * flow.chunk_bytes,
                            end = std::min(flow.bytes, last * flow.chunk_bytes);
        for (const Segment& segment : internal::cut(flow.segments, begin, end - begin)) {
          const std::uint32_t tensor = segment.tensor % tasks_.size();
          insert(cargos_[RegionKey{tensor, segment.region}].landed[report.device],
                 {segment.begin, segment.begin + segment.bytes});
        }
        first = last;
      }
    }
  }
}

std::vector<std::uint64_t> Repair::boundaries(const TransferredRegion& cargo) {
  std::set<std::uint64_t> bytes;
  for (const auto* side : {&cargo.wanted, &cargo.landed}) {
    for (const auto& [device, ranges] : *side) {
      for (const ByteInterval& range : ranges) {
        bytes.insert(range.begin);
        bytes.insert(range.end);
      }
    }
  }
  return {bytes.begin(), bytes.end()};
}

bool Repair::covers(const std::map<DeviceId, Ranges>& side, DeviceId device, std::uint64_t byte) {
  const auto found = side.find(device);
  if (found == side.end()) return false;
  const auto after =
      std::upper_bound(found->second.begin(), found->second.end(), byte,
                       [](std::uint64_t b, const ByteInterval& r) { return b < r.begin; });
  return after != found->second.begin() && byte < std::prev(after)->end;
}

Repair::MissingRange Repair::missing_range_at(const RegionKey& key, const TransferredRegion& cargo,
                                              ByteInterval range, std::span<const DeviceId> dead) {
  const auto has = [&](const std::map<DeviceId, Ranges>& side, DeviceId device) {
    return !contains(dead, device) && covers(side, device, range.begin);
  };
  MissingRange gap{&key, range, {}, {}};
  for (const auto& [device, ranges] : cargo.wanted) {
    if (has(cargo.wanted, device) && !covers(cargo.landed, device, range.begin))
      gap.receivers.push_back(device);
  }
  if (gap.receivers.empty()) return gap;
  for (const DeviceId device : cargo.holders) {
    if (!contains(dead, device)) gap.holders.push_back(device);
  }
  for (const auto& [device, ranges] : cargo.landed) {
    if (has(cargo.landed, device)) gap.holders.push_back(device);
  }
  std::sort(gap.holders.begin(), gap.holders.end());
  gap.holders.erase(std::unique(gap.holders.begin(), gap.holders.end()), gap.holders.end());
  return gap;
}

std::vector<Repair::MissingRange> Repair::missing_ranges(std::span<const DeviceId> dead) const {
  std::vector<MissingRange> result;
  const auto continues_last = [&](const MissingRange& gap) {
    return !result.empty() && result.back().key == gap.key &&
           result.back().range.end == gap.range.begin && result.back().holders == gap.holders &&
           result.back().receivers == gap.receivers;
  };
  for (const auto& [key, cargo] : cargos_) {
    const std::vector<std::uint64_t> cuts = boundaries(cargo);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      MissingRange gap = missing_range_at(key, cargo, {cuts[i], cuts[i + 1]}, dead);
      if (gap.receivers.empty()) continue;
      if (continues_last(gap)) result.back().range.end = gap.range.end;
      else result.push_back(std::move(gap));
    }
  }
  return result;
}

std::uint64_t Repair::missing_bytes(std::span<const DeviceId> dead) const {
  std::uint64_t bytes = 0;
  for (const MissingRange& gap : missing_ranges(dead))
    bytes += (gap.range.end - gap.range.begin) * gap.receivers.size();
  return bytes;
}

ReshardPlan Repair::plan(std::span<const DeviceId> dead, const Network& network,
                         const PlanOptions& options) const {
  internal::ReshardDemand demand;
  std::map<std::pair<std::vector<DeviceId>, std::vector<DeviceId>>, std::size_t> bundles;
  for (MissingRange& gap : missing_ranges(dead)) {
    const std::uint64_t bytes = gap.range.end - gap.range.begin;
    if (gap.holders.empty()) {
      throw_error(
          ErrorCode::kDataLoss,
          "{} of tensor {} region {}, which device {} needs, are lost: all devices that held "
          "them have died; restart from a checkpoint",
          format_bytes(bytes), gap.key->tensor, to_string(gap.key->region), gap.receivers.front());
    }
    const auto [bundle, fresh] =
        bundles.try_emplace({gap.holders, gap.receivers}, demand.bundles.size());
    if (fresh)
      demand.bundles.push_back(
          {gap.holders, gap.receivers, {}, 0, size_of(tasks_[gap.key->tensor].type.dtype)});
    demand.bundles[bundle->second].segments.push_back(
        {gap.key->tensor, gap.key->region, gap.range.begin, bytes});
    demand.bundles[bundle->second].bytes += bytes;
  }
  internal::merge_data(demand, topology_);
  ReshardPlan plan;
  plan.topology = topology_;
  for (const ReshardTask& task : tasks_)
    plan.tasks.push_back({task.type, without(task.source, dead), without(task.destination, dead)});
  for (const ReshardTask& task : tasks_) {
    const ShardMap landed = without(task.destination, dead);
    plan.tasks.push_back({task.type, landed, landed});
  }
  for (const LocalCopy& copy : copies_) {
    if (!contains(dead, copy.device)) plan.copies.push_back(copy);
  }
  const LimitSolution solution = solve_limit(demand.data, network);
  plan.limit = solution.limit;
  internal::WeftPlan weft = internal::plan_weft(demand, topology_, network, options, solution);
  plan.flows = std::move(weft.flows);
  plan.predicted_seconds = weft.predicted_seconds;
  plan.minimum_between_hosts = internal::minimum_between_hosts(demand);
  plan.note = "repairs a plan";
  // A root that is not an original holder sends the landed data of its destination.
  for (Flow& flow : plan.flows) {
    for (Segment& segment : flow.segments) {
      const Region* held = tasks_[segment.tensor].source.region_of(flow.root);
      if (held == nullptr || !held->contains(segment.region)) segment.tensor += tasks_.size();
    }
  }
  return plan;
}

ReshardPlan plan_repair(const ReshardPlan& plan, std::span<const LandedReport> landed,
                        std::span<const DeviceId> dead, const Network& network,
                        const PlanOptions& options) {
  Repair repair(plan);
  repair.add(plan, landed);
  return repair.plan(dead, network, options);
}

}  // namespace weft::transfer

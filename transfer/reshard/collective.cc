#include "transfer/reshard/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/units.h"
#include "transfer/reshard/tree.h"

namespace weft::transfer {
namespace {

void check_group(const std::string& what, DType dtype, bool reduces, const Region& box,
                 const std::vector<Shard>& ranks, const Topology& topology) {
  if (ranks.empty()) throw_error(ErrorCode::kInvalidArgument, "{}: the group is empty", what);
  if (reduces && dtype == DType::kU8)
    throw_error(ErrorCode::kInvalidArgument, "{}: {} cannot be reduced; use f32, bf16, f64 or i32",
                what, to_string(dtype));
  std::set<DeviceId> seen;
  for (const Shard& shard : ranks) {
    topology.host_of(shard.device);
    if (!seen.insert(shard.device).second)
      throw_error(ErrorCode::kInvalidArgument, "{}: device {} appears twice in the group", what,
                  shard.device);
    if (!box.contains(shard.region)) {
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: device {} has region {}, which is outside the box {}", what, shard.device,
                  to_string(shard.region), to_string(box));
    }
  }
}

/// Adds flows to one plan, and tracks the loads by which trees are balanced.
class CollectiveFlowBuilder {
 public:
  CollectiveFlowBuilder(CollectivePlan& plan, const Topology& topology,
                        const CollectiveOptions& options)
      : plan_(plan),
        topology_(topology),
        options_(options),
        one_rank_per_host_(on_hosts_of_their_own(plan, topology)),
        loads_(topology) {}

  /// Adds a flow of `region`. With `like`, takes its chunk size, so that chunk i of both is the
  /// same bytes.
  const Flow& add(FlowKind kind, const Region& region, DeviceId root, std::vector<FlowEdge> edges,
                  const Flow* like = nullptr, const ChunkOptions* chunks = nullptr) {
    Flow flow{FlowId(plan_.flows.size()),
              kind,
              {Segment::whole(0, region, size_of(plan_.dtype))},
              root,
              std::move(edges),
              0,
              0,
              0};
    set_chunks(flow, size_of(plan_.dtype), chunks != nullptr ? *chunks : options_.chunks);
    if (like != nullptr) flow.chunk_bytes = like->chunk_bytes;
    loads_.add(topology_, flow.edges, flow.bytes);
    plan_.flows.push_back(std::move(flow));
    return plan_.flows.back();
  }

  /// Adds a flow from one rank to another, as part of a rotation. Uses small chunks to many ranks
  /// at a time, so that a sender always has a receiver that is not busy with others, and no
  /// receiver gets more than its queue holds.
  const Flow& add_turn(FlowKind kind, const Region& region, DeviceId from, DeviceId to) {
    ChunkOptions chunks = options_.chunks;
    if (plan_.ranks.size() > 2) {
      chunks.direct_chunk_bytes = options_.rotation_chunk_bytes;
      chunks.window = options_.rotation_window;
      if (one_rank_per_host_)
        plan_.egress_slots =
            std::min<std::uint32_t>(plan_.ranks.size() - 1, options_.rotation_width);
    }
    return add(kind, region, from, {{from, to}}, nullptr, &chunks);
  }

  /// Returns true if every rank should send its part directly to every other, in rotation. If no
  /// two ranks share a host, this sends as many bytes as trees do. If the parts are about equal,
  /// all links are busy throughout, whereas each hop of a chain lags a chunk behind its
  /// predecessor. `most`: bytes of the largest part; `all`: bytes of all parts.
  bool sends_directly(std::uint64_t most, std::uint64_t all) const {
    return one_rank_per_host_ && most * plan_.ranks.size() <= 2 * all;
  }

  /// Calls add(i, j) for every two ranks. Rank i begins with rank i + 1, so that not all ranks send
  /// to the same rank first.
  template <typename Add>
  void in_rotation(const Add& add) const {
    const std::size_t n = plan_.ranks.size();
    for (std::size_t distance = 1; distance < n; ++distance)
      for (std::size_t i = 0; i < n; ++i) add(i, (i + distance) % n);
  }

  /// Returns edges from the root to all others: direct for small payloads, otherwise a tree that
  /// enters each host once.
  std::vector<FlowEdge> edges_to_others(DeviceId root, std::uint64_t bytes) const {
    std::vector<DeviceId> others;
    for (const auto& rank : plan_.ranks) {
      if (rank.device != root) others.push_back(rank.device);
    }
    if (bytes * others.size() > options_.max_one_hop_bytes)
      return broadcast_tree(root, others, topology_, loads_);
    std::vector<FlowEdge> edges;
    for (const DeviceId other : others) edges.push_back({root, other});
    return edges;
  }

 private:
  static bool on_hosts_of_their_own(const CollectivePlan& plan, const Topology& topology) {
    std::set<HostId> hosts;
    for (const auto& rank : plan.ranks) hosts.insert(topology.host_of(rank.device));
    return hosts.size() == plan.ranks.size();
  }

  CollectivePlan& plan_;
  const Topology& topology_;
  const CollectiveOptions& options_;
  const bool one_rank_per_host_;  ///< True if no two ranks share a host.
  Loads loads_;
};

Reduction reduction_of(const Flow& flow, ReduceOp op, std::size_t num_ranks, std::size_t own_rank) {
  return {flow.segments.front().region,
          op,
          static_cast<std::uint32_t>(num_ranks),
          static_cast<std::uint32_t>(own_rank),
          flow.bytes,
          flow.chunk_bytes,
          flow.window};
}

/// Returns the reduction of a group of one device, which needs no message.
Reduction reduction_alone(const Region& region, ReduceOp op, std::size_t element_size) {
  const std::uint64_t bytes = region.num_elements() * element_size;
  return {region, op, 1, 0, bytes, bytes, 1};
}

/// Returns piece i of n of a flat tensor, cut at multiples of 16 elements.
Region flat_piece(std::int64_t elements, std::size_t i, std::size_t n) {
  const auto cut = [&](std::size_t k) {
    return k == n ? elements : part_of(elements, k, n).begin / 16 * 16;
  };
  return Region({{cut(i), cut(i + 1)}});
}

}  // namespace

std::string_view to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce: return "all_reduce";
    case CollectiveKind::kReduceScatter: return "reduce_scatter";
    case CollectiveKind::kAllGather: return "all_gather";
  }
  WEFT_CHECK(false, "collective {}", static_cast<int>(kind));
}

CollectivePlan plan_all_reduce(DType dtype, const Region& box, const std::vector<DeviceId>& ranks,
                               const Topology& topology, ReduceOp op,
                               const CollectiveOptions& options) {
  std::vector<Shard> shards;
  for (const DeviceId device : ranks) shards.push_back({device, box});
  check_group("all_reduce", dtype, true, box, shards, topology);
  const std::int64_t elements = box.num_elements();
  const std::uint64_t bytes = elements * size_of(dtype);
  const Region flat({{0, elements}});
  const std::size_t n = ranks.size();
  CollectivePlan plan{CollectiveKind::kAllReduce, dtype, {}, {}};
  for (const DeviceId device : ranks) plan.ranks.push_back({device, flat, flat, {}, {}});
  CollectiveFlowBuilder flows(plan, topology, options);
  if (n == 1) {
    plan.ranks[0].reductions.push_back(reduction_alone(flat, op, size_of(dtype)));
    return plan;
  }
  if (bytes * (n - 1) <= options.max_one_hop_bytes ||
      elements < static_cast<std::int64_t>(16 * n)) {
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<FlowEdge> edges;
      for (std::size_t j = 0; j < n; ++j) {
        if (j != i) edges.push_back({ranks[i], ranks[j]});
      }
      plan.ranks[i].reductions.push_back(reduction_of(
          flows.add(FlowKind::kContribution, flat, ranks[i], std::move(edges)), op, n, i));
    }
    return plan;
  }
  std::vector<Region> pieces;
  for (std::size_t j = 0; j < n; ++j) pieces.push_back(flat_piece(elements, j, n));
  if (flows.sends_directly(bytes / n, bytes)) {
    flows.in_rotation([&](std::size_t i, std::size_t j) {
      flows.add_turn(FlowKind::kContribution, pieces[j], ranks[i], ranks[j]);
    });
    flows.in_rotation([&](std::size_t i, std::size_t j) {
      const Flow& flow = flows.add_turn(FlowKind::kResult, pieces[i], ranks[i], ranks[j]);
      if (plan.ranks[i].reductions.empty())
        plan.ranks[i].reductions.push_back(reduction_of(flow, op, n, i));
    });
    return plan;
  }
  std::vector<Flow> results;
  for (std::size_t j = 0; j < n; ++j) {
    results.push_back(
        flows.add(FlowKind::kResult, pieces[j], ranks[j], flows.edges_to_others(ranks[j], bytes)));
    plan.ranks[j].reductions.push_back(reduction_of(results.back(), op, n, j));
  }
  flows.in_rotation([&](std::size_t i, std::size_t j) {
    flows.add(FlowKind::kContribution, pieces[j], ranks[i], {{ranks[i], ranks[j]}}, &results[j]);
  });
  return plan;
}

CollectivePlan plan_reduce_scatter(DType dtype, const Region& box, const std::vector<Shard>& ranks,
                                   const Topology& topology, ReduceOp op,
                                   const CollectiveOptions& options) {
  check_group("reduce_scatter", dtype, true, box, ranks, topology);
  const std::size_t n = ranks.size();
  CollectivePlan plan{CollectiveKind::kReduceScatter, dtype, {}, {}};
  for (const Shard& shard : ranks) plan.ranks.push_back({shard.device, box, shard.region, {}, {}});
  CollectiveFlowBuilder flows(plan, topology, options);
  if (n == 1)
    plan.ranks[0].reductions.push_back(reduction_alone(ranks[0].region, op, size_of(dtype)));
  flows.in_rotation([&](std::size_t i, std::size_t j) {
    const Flow& flow =
        flows.add_turn(FlowKind::kContribution, ranks[j].region, ranks[i].device, ranks[j].device);
    if (plan.ranks[j].reductions.empty())
      plan.ranks[j].reductions.push_back(reduction_of(flow, op, n, j));
  });
  return plan;
}

CollectivePlan plan_all_gather(DType dtype, const Region& box, const std::vector<Shard>& ranks,
                               const Topology& topology, const CollectiveOptions& options) {
  check_group("all_gather", dtype, false, box, ranks, topology);
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    covered += ranks[i].region.num_elements();
    for (std::size_t j = 0; j < i; ++j) {
      if (!ranks[i].region.intersect(ranks[j].region)) continue;
      throw_error(
          ErrorCode::kInvalidArgument, "all_gather: {} of device {} and {} of device {} overlap",
          to_string(ranks[i].region), ranks[i].device, to_string(ranks[j].region), ranks[j].device);
    }
  }
  if (covered != box.num_elements()) {
    throw_error(ErrorCode::kInvalidArgument,
                "all_gather: the group's regions have {} of the {} elements of {}", covered,
                box.num_elements(), to_string(box));
  }
  CollectivePlan plan{CollectiveKind::kAllGather, dtype, {}, {}};
  for (const Shard& shard : ranks)
    plan.ranks.push_back({shard.device, shard.region, box, {shard.region}, {}});
  if (ranks.size() == 1) return plan;
  CollectiveFlowBuilder flows(plan, topology, options);
  std::uint64_t most = 0;
  for (const Shard& shard : ranks)
    most = std::max<std::uint64_t>(most, shard.region.num_elements() * size_of(dtype));
  if (flows.sends_directly(most, box.num_elements() * size_of(dtype))) {
    flows.in_rotation([&](std::size_t i, std::size_t j) {
      flows.add_turn(FlowKind::kDeliver, ranks[i].region, ranks[i].device, ranks[j].device);
    });
    return plan;
  }
  for (const Shard& shard : ranks) {
    const auto bytes = shard.region.num_elements() * size_of(dtype);
    flows.add(FlowKind::kDeliver, shard.region, shard.device,
              flows.edges_to_others(shard.device, bytes));
  }
  return plan;
}

DevicePart CollectivePlan::device_part(DeviceId device) const {
  DevicePart part;
  part.device = device;
  const auto own = std::find_if(ranks.begin(), ranks.end(),
                                [&](const Rank& rank) { return rank.device == device; });
  if (own == ranks.end()) return part;
  part.tensors.push_back({dtype, own->source, own->destination});
  part.egress_slots = egress_slots;
  for (const Region& region : own->copies) part.copies.push_back({0, region});
  part.reductions = own->reductions;
  part.streams = flow_roles_of(flows, device);
  for (FlowRole& stream : part.streams) {
    const bool received = stream.parent.has_value();
    if (stream.kind == FlowKind::kDeliver || received != (stream.kind == FlowKind::kContribution))
      continue;
    const DeviceId root = flows.at(stream.flow.value()).root;
    stream.rank = static_cast<std::uint32_t>(
        std::find_if(ranks.begin(), ranks.end(),
                     [&](const Rank& rank) { return rank.device == root; }) -
        ranks.begin());
    const auto reduction = std::find_if(part.reductions.begin(), part.reductions.end(),
                                        [&](const Reduction& candidate) {
                                          return candidate.region == stream.segments.front().region;
                                        });
    WEFT_CHECK(reduction != part.reductions.end(), "flow {} has no reduction on device {}",
               stream.flow, device);
    stream.reduction = reduction - part.reductions.begin();
  }
  return part;
}

std::uint64_t CollectivePlan::bytes_between_hosts(const Topology& topology) const {
  std::uint64_t bytes = 0;
  for (const Flow& flow : flows) {
    for (const FlowEdge& edge : flow.edges)
      bytes += topology.host_of(edge.parent) == topology.host_of(edge.child) ? 0 : flow.bytes;
  }
  return bytes;
}

std::string CollectivePlan::digest() const { return sha256(encode(*this)); }

std::string to_string(const CollectivePlan& plan) {
  std::string text = fmt::format("{} {} over", to_string(plan.kind), to_string(plan.dtype));
  for (const CollectivePlan::Rank& rank : plan.ranks) text += fmt::format(" {}", rank.device);
  for (const Flow& flow : plan.flows) text += "\n  " + to_string(flow);
  return text;
}

}  // namespace weft::transfer

#pragma once

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "transfer/reshard/plan.h"

namespace weft::test {

/// Returns the row-major indices of a region's elements in the whole tensor.
inline std::vector<std::int64_t> elements_of(const Region& region, const Shape& shape) {
  std::vector<std::int64_t> result = {0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t base : result) {
      for (std::int64_t i = region[d].begin; i < region[d].end; ++i)
        next.push_back(base * shape[d] + i);
    }
    result = std::move(next);
  }
  return result;
}

/// Number of times that a device holds or receives each byte of each tensor.
using ByteCounts = std::map<std::pair<std::uint32_t, std::int64_t>, int>;

/// Counts the bytes of a segment.
inline void count_segment(const transfer::ReshardPlan& plan, const transfer::Segment& segment,
                          ByteCounts& counts) {
  const TensorType& type = plan.tasks.at(segment.tensor).type;
  const std::uint64_t size = size_of(type.dtype);
  const std::vector<std::int64_t> elements = elements_of(segment.region, type.shape);
  for (std::uint64_t byte = segment.begin; byte < segment.begin + segment.bytes; ++byte) {
    const std::int64_t at = elements.at(byte / size) * static_cast<std::int64_t>(size) +
                            static_cast<std::int64_t>(byte % size);
    ++counts[{segment.tensor, at}];
  }
}

inline void count_region(const transfer::ReshardPlan& plan, std::uint32_t tensor,
                         const Region& region, ByteCounts& counts) {
  count_segment(plan,
                transfer::Segment::whole(tensor, region, size_of(plan.tasks.at(tensor).type.dtype)),
                counts);
}

/// Returns an error of a plan for small tensors, or "". Each flow must be a tree whose root holds
/// the bytes, and each device must receive each wanted byte once. `held` and `wanted` default to
/// the tasks' sources and destinations.
inline std::string what_is_wrong(const transfer::ReshardPlan& plan,
                                 std::map<transfer::DeviceId, ByteCounts> held = {},
                                 std::map<transfer::DeviceId, ByteCounts> wanted = {}) {
  using transfer::DeviceId, transfer::Flow, transfer::FlowEdge, transfer::LocalCopy,
      transfer::Segment, transfer::Shard;
  if (held.empty()) {
    for (std::uint32_t i = 0; i < plan.tasks.size(); ++i) {
      for (const Shard& shard : plan.tasks[i].source.shards)
        count_region(plan, i, shard.region, held[shard.device]);
    }
  }
  if (wanted.empty()) {
    for (std::uint32_t i = 0; i < plan.tasks.size(); ++i) {
      for (const Shard& shard : plan.tasks[i].destination.shards)
        count_region(plan, i, shard.region, wanted[shard.device]);
    }
  }
  std::map<DeviceId, ByteCounts> delivered;
  for (std::size_t i = 0; i < plan.flows.size(); ++i) {
    const Flow& flow = plan.flows[i];
    if (flow.id.value() != i) return fmt::format("flow {} stands at place {}", flow.id, i);
    std::uint64_t bytes = 0;
    ByteCounts payload;
    for (const Segment& segment : flow.segments) {
      bytes += segment.bytes;
      count_segment(plan, segment, payload);
    }
    if (bytes != flow.bytes || bytes == 0 || flow.chunk_bytes == 0 || flow.chunk_bytes > bytes ||
        flow.window == 0)
      return "sizes do not fit: " + to_string(flow);
    for (const auto& [byte, count] : payload) {
      if (!held[flow.root].contains(byte)) return "the root does not hold it: " + to_string(flow);
    }
    std::set<DeviceId> reached = {flow.root};
    for (const FlowEdge& edge : flow.edges) {
      if (!reached.contains(edge.parent))
        return "a device passes on what it has not got: " + to_string(flow);
      if (!reached.insert(edge.child).second)
        return "a device is sent a flow twice: " + to_string(flow);
      for (const auto& [byte, count] : payload) delivered[edge.child][byte] += count;
    }
    if (flow.edges.empty()) return "a flow goes nowhere: " + to_string(flow);
  }
  for (const LocalCopy& copy : plan.copies) {
    ByteCounts payload;
    count_region(plan, copy.tensor, copy.region, payload);
    for (const auto& [byte, count] : payload) {
      if (!held[copy.device].contains(byte))
        return fmt::format("device {} copies what it does not hold", copy.device);
      delivered[copy.device][byte] += count;
    }
  }
  for (auto& [device, bytes] : wanted) {
    if (delivered[device] != bytes)
      return fmt::format("device {} does not get each byte that it wants once", device);
    delivered.erase(device);
  }
  for (const auto& [device, bytes] : delivered) {
    if (!bytes.empty()) return fmt::format("device {} gets what it does not want", device);
  }
  return {};
}

}  // namespace weft::test

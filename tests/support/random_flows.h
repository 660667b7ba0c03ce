#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "transfer/reshard/plan.h"

namespace weft::test {

/// Makes several tensors. Some devices hold each whole or in two halves, and others want it whole.
inline std::vector<transfer::ReshardTask> random_tasks(std::mt19937_64& random,
                                                       std::size_t num_devices) {
  std::vector<transfer::ReshardTask> tasks(1 + random() % 5);
  for (transfer::ReshardTask& task : tasks) {
    const DType dtype = std::array{DType::kF32, DType::kF64, DType::kU8}[random() % 3];
    const Shape shape = {2 + static_cast<std::int64_t>(random() % 20),
                         1 + static_cast<std::int64_t>(random() % 40)};
    const Region whole = Region::whole(shape);
    task = {{dtype, shape}, {shape, {}}, {shape, {}}};
    // Cuts columns or rows. Columns are strided in the receivers' boxes.
    const std::size_t cut = shape[1] > 1 && random() % 2 == 0 ? 1 : 0;
    std::vector<Interval> first(whole.intervals().begin(), whole.intervals().end()), second = first;
    first[cut].end = second[cut].begin = shape[cut] / 2;
    const bool halves = num_devices > 2 && random() % 2 == 0;
    for (std::uint32_t device = 0; device < num_devices; ++device) {
      const bool holds = device < (halves ? 2u : 1u) || random() % 3 == 0;
      if (!holds || device + 1 == num_devices)
        task.destination.shards.push_back({transfer::DeviceId(device), whole});
      else
        task.source.shards.push_back({transfer::DeviceId(device),
                                      halves ? Region(device % 2 == 0 ? first : second) : whole});
    }
  }
  return tasks;
}

/// Makes a plan that no strategy would make. Cuts each (receiver set, region) at random multiples
/// of 64 bytes and bundles the pieces at random into flows. Each flow has a random holder as its
/// root and a random tree.
inline transfer::ReshardPlan random_plan(std::mt19937_64& random,
                                         std::vector<transfer::ReshardTask> tasks,
                                         const transfer::Topology& topology) {
  using transfer::DeviceId, transfer::Flow, transfer::FlowId, transfer::Segment;
  transfer::ReshardPlan plan;
  plan.tasks = std::move(tasks);
  plan.topology = topology;
  plan.strategy = transfer::ReshardAlgorithm::kSendRecv;
  struct Piece {
    Segment segment;
    DeviceId root;
    std::vector<DeviceId> receivers;
  };
  std::vector<Piece> pieces;
  for (std::uint32_t t = 0; t < plan.tasks.size(); ++t) {
    const transfer::ReshardTask& task = plan.tasks[t];
    std::vector<Region> regions;
    for (const transfer::Shard& shard : task.source.shards) {
      if (std::find(regions.begin(), regions.end(), shard.region) == regions.end())
        regions.push_back(shard.region);
    }
    for (const Region& region : regions) {
      std::vector<DeviceId> holders, receivers;
      for (const transfer::Shard& shard : task.source.shards) {
        if (shard.region == region) holders.push_back(shard.device);
      }
      for (const transfer::Shard& shard : task.destination.shards)
        receivers.push_back(shard.device);
      const std::uint64_t bytes = Segment::whole(t, region, size_of(task.type.dtype)).bytes;
      for (std::uint64_t begin = 0; begin < bytes;) {
        const std::uint64_t end =
            random() % 2 == 0 ? bytes : std::min(bytes, begin + 64 * (1 + random() % 8));
        pieces.push_back(
            {{t, region, begin, end - begin}, holders[random() % holders.size()], receivers});
        begin = end;
      }
    }
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  while (!pieces.empty()) {
    Flow flow;
    flow.id = FlowId(plan.flows.size());
    flow.root = pieces.back().root;
    std::vector<DeviceId> receivers = pieces.back().receivers;
    const bool bundle = random() % 2 == 0;
    for (auto it = pieces.end(); it != pieces.begin();) {
      --it;
      if (it->root != flow.root || it->receivers != receivers) continue;
      flow.segments.push_back(it->segment);
      it = pieces.erase(it);
      if (!bundle) break;
    }
    std::shuffle(receivers.begin(), receivers.end(), random);
    std::vector<DeviceId> reached = {flow.root};
    for (const DeviceId receiver : receivers) {
      flow.edges.push_back({reached[random() % reached.size()], receiver});
      reached.push_back(receiver);
    }
    set_chunks(flow, 1,
               {64u << (random() % 4), 64u << (random() % 4),
                1 + static_cast<std::uint32_t>(random() % 3)});
    plan.flows.push_back(std::move(flow));
  }
  return plan;
}

}  // namespace weft::test

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/shape.h"
#include "transfer/flow/device_part.h"
#include "transfer/reshard/shard_map.h"
#include "transfer/reshard/strategy.h"

namespace weft::transfer {

/// A tensor that must lie differently: on other devices, or cut along other dimensions. Source and destination may share devices.
struct ReshardTask {
  TensorType type;
  ShardMap source;
  ShardMap destination;

  friend bool operator==(const ReshardTask&, const ReshardTask&) = default;
  static constexpr auto fields = weft::fields(&ReshardTask::type, &ReshardTask::source, &ReshardTask::destination);
};

/// A region that one device copies from its own source shard to its own destination shard.
struct LocalCopy {
  DeviceId device;
  std::uint32_t tensor = 0;
  Region region;
  friend bool operator==(const LocalCopy&, const LocalCopy&) = default;
  static constexpr auto fields = weft::fields(&LocalCopy::device, &LocalCopy::tensor, &LocalCopy::region);
};

/// Who sends what to whom so that `tasks` are done: a pure value, equal on every process that computes it.
///
/// Tensor i of its flows and copies is that of tasks[i]. Every (receiving device, byte) is delivered exactly once: by one flow or
/// by one local copy.
struct ReshardPlan {
  std::vector<ReshardTask> tasks;
  Topology topology;
  Strategy strategy = Strategy::kBroadcast;
  std::vector<Flow> flows;
  std::vector<LocalCopy> copies;

  /// What `device` has to do; empty() if it takes no part.
  DevicePart device_part(DeviceId device) const;
  /// Every device that holds, wants or forwards something, ascending.
  std::vector<DeviceId> devices() const;
  /// SHA-256 over the encoded plan. Compare it across processes before moving data.
  std::string digest() const;

  friend bool operator==(const ReshardPlan&, const ReshardPlan&) = default;
  static constexpr auto fields = weft::fields(&ReshardPlan::tasks, &ReshardPlan::topology, &ReshardPlan::strategy,
                                              &ReshardPlan::flows, &ReshardPlan::copies);
};

/// A headline, then a line per flow and per copy.
std::string to_string(const ReshardPlan& plan);

/// Plans `task` under `strategy`. Senders are balanced over the holders by the bytes their hosts already send.
/// Throws Error(kInvalidArgument) when the maps do not fit (see cut_slices) or name a device outside `topology`.
ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology, Strategy strategy, const ChunkOptions& options = {});

}  // namespace weft::transfer

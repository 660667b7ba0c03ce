#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transfer/nccl/device_path.h"
#include "transfer/topology/network.h"

namespace weft::mesh {

/// Choice whether devices copy the state into host memory, for a checkpoint that is written while
/// steps continue, or for recovery (see InMemoryCheckpoint).
enum class CopyMode : std::uint8_t {
  kNo,
  kIfMemoryAllows,  ///< The planner decides, see PlanDecisions.
  kYes,
};

/// Circumstances of a run on which its plan depends, beside the layout: the cluster, and the copies
/// of the state that the run asks for. A value. The conditions of a plan make the same plan again:
/// what kIfMemoryAllows left open is decided there.
struct PlanConditions {
  /// Bytes per second of each host's link, each way, by name.
  std::map<std::string, double> links = {};
  /// Link rates that replace `links`, by HostId of the plan: what a run observed.
  std::optional<transfer::Network> observed_network = {};
  /// Places where the devices compute, by DeviceId. Empty if unknown: no device is a GPU.
  std::vector<transfer::DeviceCapabilities> device_places = {};
  /// FLOP/s of a device; absent if unknown. The steps of actions are ordered by it.
  std::optional<double> flops_per_second = {};
  /// False: actions keep the order of the model's graph. A baseline for benchmarks and tests.
  bool orders_steps = true;
  /// True if GPUs give equal results for equal inputs, in their ops and in sums between them, which
  /// are then added in rank order as through host memory.
  bool deterministic = true;
  /// Bytes of a checkpoint that the driver holds at a time.
  std::uint64_t checkpoint_buffer = std::uint64_t{256} << 20;
  CopyMode checkpoint_copies = CopyMode::kNo;
  /// Copies of the state in the memory of other hosts.
  CopyMode snapshots = CopyMode::kNo;

  /// Bytes per second of a host that is not in `links`: 10 Gbit/s.
  static constexpr double kUnknownLink = 1.25e9;

  /// FLOP/s of a device of unknown speed: a core of a CPU, and a GPU with bf16.
  static constexpr double kUnknownCpu = 5e10, kUnknownGpu = 3e14;

  /// Returns the FLOP/s of a device, or a guess.
  double device_flops() const;
  /// Returns the link rates of hosts, by HostId.
  transfer::Network network_of(const std::vector<std::string>& hosts) const;
};

}  // namespace weft::mesh

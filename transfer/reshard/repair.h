#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "transfer/flow/landed_chunks.h"
#include "transfer/reshard/plan.h"

namespace weft::transfer {

/// Report of one device about a transfer that ended early.
struct LandedReport {
  DeviceId device;
  /// Landed chunks per flow. No chunk of a flow that is not listed has landed.
  std::vector<LandedChunks> flows;
};

/// Completes a resharding in which devices died. Tracks which bytes have landed where, and plans
/// the missing ones. Every device that has a byte can be its source, including receivers. A value;
/// deterministic. Use one per resharding, for any number of deaths.
///
///   Repair repair(plan);
///   repair.add(plan, landed);                       // reports of the survivors
///   ReshardPlan second = repair.plan(dead, network);  // run it under another TransferId
///   repair.add(second, landed_of_second);           // and so on after further deaths
///
/// A repair plan has 2 n tensors for the n of the first plan. Tensor t is the original one without
/// the dead devices. Tensor n + t is the landed data of tensor t: for it, pass the destination
/// buffer of tensor t both as source and as destination.
class Repair final {
 public:
  /// Throws Error(kInvalidArgument) for a plan with sums (ReshardTask::addends).
  explicit Repair(const ReshardPlan& plan);

  /// Records reports. Throws Error(kInvalidArgument) if a report does not fit the plan: an unknown
  /// flow, or another number of chunks.
  void add(const ReshardPlan& plan, std::span<const LandedReport> landed);

  /// Returns the bytes that the deaths of `dead` leave undelivered, summed over the devices that
  /// need them.
  std::uint64_t missing_bytes(std::span<const DeviceId> dead) const;

  /// Returns a plan for the missing bytes among live devices; its flows are empty if nothing is
  /// missing. Copies inside devices are repeated. Throws Error(kDataLoss) if bytes that a live
  /// device needs have no live holder.
  ReshardPlan plan(std::span<const DeviceId> dead, const Network& network,
                   const PlanOptions& options = {}) const;

 private:
  struct ByteInterval {
    std::uint64_t begin, end;
  };
  using Ranges = std::vector<ByteInterval>;  // ascending and disjoint
  /// Region of a tensor that travels: its original holders, the bytes that each device needs, and
  /// the bytes that have landed.
  struct TransferredRegion {
    std::vector<DeviceId> holders;
    std::map<DeviceId, Ranges> wanted, landed;
  };
  struct RegionKey {
    std::uint32_t tensor;
    Region region;
    friend auto operator<=>(const RegionKey&, const RegionKey&) = default;
  };
  /// Bytes [begin, end) of a cargo that the same live devices have and the same live devices miss.
  struct MissingRange {
    const RegionKey* key;
    ByteInterval range;
    std::vector<DeviceId> holders, receivers;
  };
  std::vector<MissingRange> missing_ranges(std::span<const DeviceId> dead) const;
  /// Returns the live devices that miss `range` of a cargo and, if there are any, the live devices
  /// that have it. No boundary lies inside `range`.
  static MissingRange missing_range_at(const RegionKey& key, const TransferredRegion& cargo,
                                       ByteInterval range, std::span<const DeviceId> dead);
  /// Returns the begins and ends of a cargo's ranges, ascending.
  static std::vector<std::uint64_t> boundaries(const TransferredRegion& cargo);
  /// Returns true if a range of the device contains this byte.
  static bool covers(const std::map<DeviceId, Ranges>& side, DeviceId device, std::uint64_t byte);
  static void insert(Ranges& ranges, ByteInterval range);

  std::vector<ReshardTask> tasks_;
  Topology topology_;
  std::vector<LocalCopy> copies_;
  std::map<RegionKey, TransferredRegion> cargos_;
};

/// Plans the repair of one plan after one failure.
ReshardPlan plan_repair(const ReshardPlan& plan, std::span<const LandedReport> landed,
                        std::span<const DeviceId> dead, const Network& network,
                        const PlanOptions& options = {});

}  // namespace weft::transfer

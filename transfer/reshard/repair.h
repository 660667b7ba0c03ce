#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "transfer/flow/landed.h"
#include "transfer/reshard/plan.h"

namespace weft::transfer {

/// What one device reports of a transfer that ended early.
struct DeviceLanded {
  DeviceId device;
  std::vector<LandedChunks> flows;  ///< A flow that is not named: nothing.
};

/// Finishes a resharding in which devices died: keeps track of what has landed where and plans what
/// is missing, with every device that has a byte as its source, receivers included. A value;
/// deterministic; one per resharding, for any number of deaths.
///
///   Repair repair(plan);
///   repair.add(plan, landed);                       // reports of the survivors
///   ReshardPlan second = repair.plan(dead, network);  // run it under another TransferId
///   repair.add(second, landed_of_second);           // and so on, should somebody die again
///
/// A repair's plan has 2 n tensors for the n of the first plan. Tensor t is what it was, without
/// the dead. Tensor n + t is what has landed of it: for that one pass the destination buffer of
/// tensor t on both sides, as source and as destination.
class Repair final {
 public:
  /// Throws Error(kInvalidArgument) for a plan with sums (ReshardTask::addends).
  explicit Repair(const ReshardPlan& plan);

  /// Throws Error(kInvalidArgument) when a report does not fit the plan: a flow that is not in it,
  /// another number of chunks.
  void add(const ReshardPlan& plan, std::span<const DeviceLanded> landed);

  /// Bytes that `dead` leaves undelivered, summed over the devices that want them.
  std::uint64_t missing_bytes(std::span<const DeviceId> dead) const;

  /// What is missing, among devices that live; nothing to send when nothing is missing. Copies
  /// inside devices are made again. Throws Error(kDataLoss) when bytes that a live device wants
  /// have no live holder any more.
  ReshardPlan plan(std::span<const DeviceId> dead, const Network& network,
                   const PlanOptions& options = {}) const;

 private:
  struct Range {
    std::uint64_t begin, end;
  };
  using Ranges = std::vector<Range>;  // ascending, apart
  /// A region of a tensor that travels: who holds it from the beginning, who wants which bytes of
  /// it, who has got which.
  struct Cargo {
    std::vector<DeviceId> holders;
    std::map<DeviceId, Ranges> wanted, landed;
  };
  struct Key {
    std::uint32_t tensor;
    Region region;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  /// Bytes [begin, end) of a cargo that the same live devices have and the same live devices miss.
  struct Gap {
    const Key* key;
    Range range;
    std::vector<DeviceId> holders, receivers;
  };
  std::vector<Gap> gaps(std::span<const DeviceId> dead) const;
  /// Who misses these bytes of a cargo, between whose ends nothing changes, and, if anybody does,
  /// who has them.
  static Gap gap_at(const Key& key, const Cargo& cargo, Range range,
                    std::span<const DeviceId> dead);
  /// Where the ranges of a cargo begin and end, ascending.
  static std::vector<std::uint64_t> boundaries(const Cargo& cargo);
  /// Whether the device's ranges, if it has any, contain this byte.
  static bool covers(const std::map<DeviceId, Ranges>& side, DeviceId device, std::uint64_t byte);
  static void insert(Ranges& ranges, Range range);

  std::vector<ReshardTask> tasks_;
  Topology topology_;
  std::vector<LocalCopy> copies_;
  std::map<Key, Cargo> cargos_;
};

/// The repair of one plan after one failure.
ReshardPlan plan_repair(const ReshardPlan& plan, std::span<const DeviceLanded> landed,
                        std::span<const DeviceId> dead, const Network& network,
                        const PlanOptions& options = {});

}  // namespace weft::transfer

#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "transfer/flow/flow.h"
#include "transfer/flow/simulate.h"
#include "transfer/topology/topology.h"

namespace weft::transfer::internal {

/// Chooses repeatedly which flows their roots send next: the flows that use the links with the most
/// work left. See preemptive_schedule().
///
/// Links are numbered as in Fluid: egress of host h at 2h, ingress at 2h + 1.
class RunChooser {
 public:
  /// `slots`: number of flows that each device sends at a time.
  RunChooser(std::span<const Flow> flows, std::span<const std::vector<DeviceId>> roots,
             const Topology& topology, std::vector<double> capacity,
             std::span<const std::size_t> slots, const PreemptOptions& options);

  /// Flow to send, and the root that sends it.
  struct Choice {
    std::uint32_t flow = 0;
    DeviceId root;
  };
  /// Returns the flows to send now. Flows of the last call stay unless others are clearly better.
  /// `seconds_left`: work left per link, at its full speed. `finished`: per flow, true if its root
  /// has sent it. `must_continue`: per flow, true if its run must not end yet. `reconsider_all`: if
  /// true, reconsiders all slots; otherwise fills only free slots.
  const std::vector<Choice>& choose(std::span<const double> seconds_left,
                                    const std::vector<bool>& finished,
                                    const std::vector<bool>& must_continue, bool reconsider_all);

  std::uint64_t steps() const { return steps_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  /// Group of flows that use the same hosts and that the same devices can send, so they are
  /// interchangeable.
  struct FlowGroup {
    /// Link, and number of copies of the flow that it carries.
    std::vector<std::pair<std::uint32_t, double>> links;
    std::vector<std::uint32_t> flows;
    double weight = 1;
  };
  /// Send slot of a device.
  struct SendSlot {
    std::uint32_t device = 0;
    std::uint32_t group = kNone;
    std::uint32_t flow = kNone;
  };

  void set_urgency(std::span<const double> seconds_left);
  /// Gives the slot a flow of the group that maximizes urgent_work(), if that beats `now`, the
  /// value with the slot's present flow. Returns the value after the choice.
  double fill(SendSlot& slot, double now, const std::vector<bool>& finished);
  std::uint32_t next_of(std::uint32_t group, const std::vector<bool>& finished) const;
  void assign(SendSlot& slot, std::uint32_t group, const std::vector<bool>& finished);
  void clear(SendSlot& slot);
  /// Returns the work that the slots' flows do on urgent links, at the rates that fair sharing
  /// gives them.
  double urgent_work();

  std::vector<FlowGroup> groups_;
  std::vector<std::vector<std::uint32_t>> groups_of_;  ///< Per device, indices of groups_.
  std::vector<SendSlot> slots_;
  std::vector<bool> taken_;  ///< Per flow, true if a slot has it.
  std::vector<double> capacity_, urgency_, room_, users_;
  std::vector<std::uint32_t> open_;  ///< Scratch of urgent_work(): indices of slots_.
  std::vector<std::uint32_t> used_;
  std::vector<Choice> chosen_;
  double sharpness_;
  std::uint64_t steps_ = 0;
};

}  // namespace weft::transfer::internal

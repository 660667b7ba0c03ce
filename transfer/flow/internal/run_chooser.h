#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "transfer/flow/flow.h"
#include "transfer/flow/simulate.h"
#include "transfer/topology/topology.h"

namespace weft::transfer::internal {

/// Chooses, again and again, which flows their roots should send next: those that use the links
/// that have most left to do. See preemptive_schedule().
///
/// Links are numbered as in Fluid: egress of host h at 2h, ingress at 2h + 1.
class RunChooser {
 public:
  /// `places`: per device, how many flows it sends at a time.
  RunChooser(std::span<const Flow> flows, std::span<const std::vector<DeviceId>> roots,
             const Topology& topology, std::vector<double> capacity,
             std::span<const std::size_t> places, const PreemptOptions& options);

  /// `seconds_left`: per link, at its full speed. `finished`: per flow, whether its root has sent
  /// it, and whether it must go on if it was chosen last. `anew`: all places are looked through for
  /// something better, else only free ones are filled. The flows to send now; those of the last
  /// call stay unless others are clearly better.
  struct Choice {
    std::uint32_t flow = 0;
    DeviceId root;
  };
  const std::vector<Choice>& choose(std::span<const double> seconds_left,
                                    const std::vector<bool>& finished,
                                    const std::vector<bool>& held, bool anew);

  std::uint64_t steps() const { return steps_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  /// Flows along the same hosts that the same devices can send: any of them is as good as another.
  struct Kind {
    /// And how many copies of the flow each carries.
    std::vector<std::pair<std::uint32_t, double>> links;
    std::vector<std::uint32_t> flows;
    double weight = 1;
  };
  /// One of a device's places.
  struct Place {
    std::uint32_t device = 0;
    std::uint32_t kind = kNone;
    std::uint32_t flow = kNone;
  };

  void set_urgency(std::span<const double> seconds_left);
  /// Gives the place a flow of the kind that makes value() highest. `now` is the value with what it
  /// has; what is worth less does not count. Returns the value with what it has then.
  double fill(Place& place, double now, const std::vector<bool>& finished);
  std::uint32_t next_of(std::uint32_t kind, const std::vector<bool>& finished) const;
  void put(Place& place, std::uint32_t kind, const std::vector<bool>& finished);
  void clear(Place& place);
  /// Of all flows in their places, at the rates that sharing the links gives them: what the urgent
  /// links carry.
  double value();

  std::vector<Kind> kinds_;
  std::vector<std::vector<std::uint32_t>> kinds_of_;  ///< Per device.
  std::vector<Place> places_;
  std::vector<bool> taken_;  ///< Per flow.
  std::vector<double> capacity_, urgency_, room_, users_;
  std::vector<std::uint32_t> open_;  ///< Scratch of value(): indices of places_.
  std::vector<std::uint32_t> used_;
  std::vector<Choice> chosen_;
  double sharpness_;
  std::uint64_t steps_ = 0;
};

}  // namespace weft::transfer::internal

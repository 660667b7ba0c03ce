#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "mesh/executor/device_group.h"
#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// The plan that a run's devices execute. Makes it for the places of the devices, connects the
/// devices with each other and with the driver, and installs the programs.
///
/// Owned by the driver. One thread at a time, except for checkpoint() and driver(), which do not
/// change between steps.
class PlanInstaller final {
 public:
  /// `layout`, `conditions`: as the run requests them; the places of devices are found here.
  /// Borrows the devices.
  PlanInstaller(DeviceGroup& devices, ParallelConfig layout, PlanConditions conditions,
                ModelGraphs model, const DeviceConfig& device)
      : devices_(devices),
        layout_(std::move(layout)),
        conditions_(std::move(conditions)),
        model_(std::move(model)),
        device_(device) {
    if (device.kind == DeviceKind::kEmulated && !conditions_.flops_per_second)
      conditions_.flops_per_second = device.flops_per_second;
  }

  const TrainingPlan& plan() const { return plan_; }
  /// Returns the checkpoint's programs. They stay the same when the plan changes between steps.
  std::span<const CheckpointBatch> checkpoint() const { return checkpoint_; }
  /// Returns the driver's part of checkpoints. Call after connect().
  CheckpointEndpoint& driver() const { return *driver_; }

  /// Connects the devices and the driver. Call before make_plan() or adapt_plan().
  void connect();
  /// Closes the driver's connections.
  void disconnect() { driver_.reset(); }
  /// Makes the first plan. `planned`: plan for the expected places, which is used if the devices
  /// are there. Then drop copies as needed, and call install_all().
  void make_plan(std::optional<TrainingPlan> planned);
  /// Drops copies of state from the plan if a machine lacks memory for them: first those for
  /// recovery, then those for checkpoints.
  void drop_copies_beyond_memory();
  /// Drops copies of state from the plan for reasons that are not empty.
  void drop_copies(const std::string& no_snapshots_reason, const std::string& no_copies_reason);
  /// Returns the replica groups of a plan for devices at other places.
  std::vector<ReplicaGroup> replica_groups_at(const MeshPlaces& places) const {
    return make_training_plan(layout_, model_, places, conditions_).snapshots.groups;
  }
  /// Installs all programs of the plan on all devices.
  void install_all();

  /// Marks a device that lacks the plan's programs and the kept state.
  void mark_outdated(transfer::DeviceId device) { outdated_.insert(device); }
  void clear_outdated() { outdated_.clear(); }
  const std::set<transfer::DeviceId>& outdated() const { return outdated_; }
  /// Makes another plan if devices have moved, and installs programs on devices that lack them.
  void adapt_plan();

  /// Installs programs that belong to no plan.
  void install(const std::vector<Program>& programs) { install(programs, nullptr); }
  /// Returns a plan of another layout for the same devices and network.
  TrainingPlan plan_for(const ParallelConfig& layout) const;
  /// Switches to a plan that differs only in the programs "train" and "validate". Keeps the
  /// programs of checkpoints, which a gather may be using.
  void switch_to(TrainingPlan plan);
  /// Plans the transfers again if the observed network differs from the plan's. Returns a note for
  /// the user, or "" if no transfer changed. `egress_rates`: see observed_network().
  std::string replan_for_network(const std::vector<double>& egress_rates);
  /// Cancels collectives on all devices: a device that waits for a dead one in a collective cannot
  /// see the death.
  void cancel_collectives(const Error& why);

 private:
  /// Returns the devices' places, or nothing if none is a GPU.
  std::vector<transfer::DeviceCapabilities> find_gpus() const;
  /// Returns why a machine lacks memory for the plan's copies, or nothing.
  std::optional<std::string> find_short_machine() const;
  /// Installs programs on these devices and the driver. Null: on all devices.
  void install(const std::vector<Program>& programs, const std::set<transfer::DeviceId>* devices);
  /// Replaces the plan, except for its programs of checkpoints and snapshots.
  void replace_plan(TrainingPlan plan);

  DeviceGroup& devices_;
  const ParallelConfig layout_;
  PlanConditions conditions_;
  const ModelGraphs model_;
  const DeviceConfig device_;
  DeviceNumbering numbering_;  ///< Numbering of connect().
  TrainingPlan plan_;
  std::span<const CheckpointBatch> checkpoint_;
  transfer::CommunicatorCache communicators_;
  std::unique_ptr<CheckpointEndpoint> driver_;
  /// Devices that lack programs of the plan: new devices, or all after a failed installation.
  std::set<transfer::DeviceId> outdated_;
};

}  // namespace weft::mesh

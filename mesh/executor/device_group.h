#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/cluster.h"
#include "actors/recovery/run_recovery.h"
#include "core/base/descriptors.h"
#include "mesh/executor/checkpoint_endpoint.h"
#include "mesh/executor/open_collectives.h"
#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// Device actors of a run's meshes, one per rank, as seen by the driver. Numbered like the plan's
/// devices.
///
/// Owned by the driver. One thread at a time, except for all(), names(), names_with_places() and
/// report().
class DeviceGroup final : public actors::RunMeshes {
 public:
  /// `batches`: bytes for OpenBatches. A device that does not answer within `patience` counts as
  /// dead.
  DeviceGroup(actors::Cluster& cluster, const std::vector<MeshConfig>& meshes,
              std::vector<std::byte> batches, Nanoseconds patience)
      : cluster_(cluster), wanted_(meshes), batches_(std::move(batches)), patience_(patience) {}

  /// Adopts the devices of the previous driver, after this driver was restarted.
  void adopt_devices();
  /// Returns the meshes to start: one device process with one actor per rank.
  std::vector<Wanted> wanted() const override;
  std::vector<actors::MeshKey> keys() const override { return keys_; }
  std::vector<std::set<std::uint32_t>> find_broken() override;
  void start_next(const actors::MeshPlacement& where) override;
  actors::Cluster::RenewResult renew(std::size_t mesh, const actors::MeshPlacement& where,
                                     const std::set<std::uint32_t>& broken) override;
  void drop_from(std::size_t mesh) override;
  /// Reads from the cluster where all devices are, and numbers them. All must have been started.
  void find_devices();
  /// Places of adopted devices; empty if adopt_devices() did not find all meshes of the layout.
  const MeshPlaces& adopted_places() const { return adopted_places_; }
  /// Devices that the last find_devices() found to be new.
  const std::set<transfer::DeviceId>& new_devices() const { return new_devices_; }
  /// Places that the head chose.
  const MeshPlaces& places() const { return places_; }
  /// Creates the actors' devices and connects them and the driver on the data plane.
  std::unique_ptr<CheckpointEndpoint> open(const DeviceNumbering& numbering,
                                           const DeviceConfig& config);
  /// Ends all device processes and returns when they have exited.
  void end_processes() { meshes_.clear(); }

  std::size_t size() const { return names_.size(); }
  const DeviceActorMeshes& meshes() const { return meshes_; }
  actors::ActorRef<DeviceActor> at(transfer::DeviceId device) const;
  /// Returns the devices of all meshes as one mesh, by DeviceId. A call to it fails with the first
  /// error of any device.
  actors::MeshRef<DeviceActor> all() const;

  /// Names such as "front[0,1]", by DeviceId.
  const std::vector<std::string>& names() const { return names_; }
  /// Names such as "front[0,1] on worker1 device 0 (pid 4121)", by DeviceId.
  std::vector<std::string> names_with_places() const;
  const std::string& host_of(transfer::DeviceId device) const;
  /// Returns the device's machine. Several hosts may be on one machine.
  const std::string& machine_of(transfer::DeviceId device) const;
  /// Reports an observation of a device to the operator; see Cluster::report().
  void report(transfer::DeviceId device, const std::string& kind, const std::string& line) const;

 private:
  static constexpr int kReservedDescriptors = 32;

  actors::Cluster& cluster_;
  const std::vector<MeshConfig> wanted_;
  const std::vector<std::byte> batches_;
  const Nanoseconds patience_;
  DeviceActorMeshes meshes_;
  std::vector<std::set<std::uint32_t>> new_ranks_;              ///< New ranks, by mesh.
  std::vector<actors::MeshKey> keys_;                           ///< Keys by mesh.
  std::vector<std::pair<std::size_t, std::uint32_t>> members_;  ///< Mesh and rank, by DeviceId.
  MeshPlaces places_, adopted_places_;
  /// File descriptors reserved for connections to replacement devices.
  DescriptorReserve reserve_{kReservedDescriptors};
  std::vector<std::string> names_;                 ///< Names by DeviceId.
  std::vector<int> slots_;                         ///< Slots by DeviceId; see DeviceSetup.
  std::map<std::string, std::string> machine_of_;  ///< Machines by host.
  std::set<transfer::DeviceId> new_devices_;
  std::uint64_t epoch_ = 0;  ///< Sum of the meshes' epochs.
};

}  // namespace weft::mesh

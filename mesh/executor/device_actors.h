#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/launch/cluster.h"
#include "actors/recovery/run_recovery.h"
#include "core/base/descriptors.h"
#include "mesh/executor/driver_participant.h"
#include "mesh/executor/open_collectives.h"
#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// The device actors of a run's meshes, one per rank, as the driver reaches them. They are numbered
/// as a plan numbers them.
///
/// Owned by the driver; one thread at a time, but for all(), names(), names_with_places() and
/// report().
class DeviceActors final : public actors::RunMeshes {
 public:
  /// `batches` is what OpenBatches takes. A device that does not answer within `patience` is taken
  /// for dead.
  DeviceActors(actors::Cluster& cluster, const std::vector<MeshConfig>& meshes,
               std::vector<std::byte> batches, Nanoseconds patience)
      : cluster_(cluster), wanted_(meshes), batches_(std::move(batches)), patience_(patience) {}

  /// For a driver that was started again: the devices of the one before it, as it has left them.
  void take_over();
  /// A device process per rank, with an actor in each.
  std::vector<Wanted> wanted() const override;
  std::vector<actors::MeshKey> keys() const override { return keys_; }
  std::vector<std::set<std::uint32_t>> find_broken() override;
  void start_next(const actors::OnHosts& where) override;
  actors::Cluster::Renewed renew(std::size_t mesh, const actors::OnHosts& where,
                                 const std::set<std::uint32_t>& broken) override;
  void drop_from(std::size_t mesh) override;
  /// Numbers the devices, all of which are there.
  void find_places();
  /// Where those were placed; empty where some mesh of the layout was not there.
  const MeshPlaces& inherited_places() const { return inherited_places_; }
  /// Since the call of find_places() before the last one: the devices that are new.
  const std::set<transfer::DeviceId>& fresh() const { return fresh_; }
  /// Where the head has placed them.
  const MeshPlaces& places() const { return places_; }
  /// Makes their devices, and lets them and the driver reach each other on the data plane.
  std::unique_ptr<DriverParticipant> open(const DeviceNumbering& numbering,
                                          const DeviceConfig& config);
  /// Ends them: their processes have ended when it returns.
  void end() { meshes_.clear(); }

  std::size_t size() const { return names_.size(); }
  const ActorMeshes& meshes() const { return meshes_; }
  actors::ActorRef<DeviceActor> at(transfer::DeviceId device) const;
  /// The devices of all meshes as one, by DeviceId: the first error of any ends a call of all.
  actors::MeshRef<DeviceActor> all() const;

  /// "front[0,1]", by DeviceId.
  const std::vector<std::string>& names() const { return names_; }
  /// "front[0,1] on worker1 device 0 (pid 4121)", by DeviceId.
  std::vector<std::string> names_with_places() const;
  const std::string& host_of(transfer::DeviceId device) const;
  /// The machine of a device, several hosts of which may be one.
  const std::string& machine_of(transfer::DeviceId device) const;
  /// Tells the operator what was seen of a device; see Cluster::report().
  void report(transfer::DeviceId device, const std::string& kind, const std::string& line) const;

 private:
  static constexpr int kReservedDescriptors = 32;

  actors::Cluster& cluster_;
  const std::vector<MeshConfig> wanted_;
  const std::vector<std::byte> batches_;
  const Nanoseconds patience_;
  ActorMeshes meshes_;
  std::vector<std::set<std::uint32_t>> fresh_ranks_;            ///< By mesh.
  std::vector<actors::MeshKey> keys_;                           ///< By mesh.
  std::vector<std::pair<std::size_t, std::uint32_t>> members_;  ///< Mesh and rank, by DeviceId.
  MeshPlaces places_, inherited_places_;
  /// For connections to new devices, where strangers have taken all other descriptors.
  DescriptorReserve reserve_{kReservedDescriptors};
  std::vector<std::string> names_;                 ///< By DeviceId.
  std::vector<int> slots_;                         ///< By DeviceId; see DeviceSetup.
  std::map<std::string, std::string> machine_of_;  ///< By host.
  std::set<transfer::DeviceId> fresh_;
  std::uint64_t epoch_ = 0;  ///< Grows with each epoch of any mesh.
};

}  // namespace weft::mesh

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
class DeviceActors final {
 public:
  /// `batches` is what OpenBatches takes.
  DeviceActors(actors::Cluster& cluster, std::vector<std::byte> batches)
      : cluster_(cluster), batches_(std::move(batches)) {}

  /// Starts a device process per rank, with an actor in each; on spares where hosts have died.
  void spawn(const LayoutConfig& layout, const std::vector<std::string>& spares);
  /// For a driver that was started again: the devices of the one before it, as it has left them.
  /// renew() comes next.
  void take_over(const LayoutConfig& layout);
  /// Where those were placed; empty where some mesh of the layout was not there.
  const MeshPlaces& inherited_places() const { return inherited_places_; }
  /// After deaths: those that live and answer go on in the next epoch of their mesh, others get new
  /// processes; also where spawn() has thrown, or has not been called. A device that does not
  /// answer within `patience` is taken for dead. Why some are still missing, so that it is to be
  /// asked again; or empty.
  std::string renew(const LayoutConfig& layout, const std::vector<std::string>& spares,
                    Nanoseconds patience);
  /// Since the call of spawn() or renew() that came to an end: the devices that are new.
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
  void find_places();
  /// Its hosts, then the others, as far as they are here; and how many devices are there, and
  /// free or its own.
  /// Where it is not placed yet, others only if those before them have too few devices.
  struct Candidates {
    actors::OnHosts where;
    std::int64_t devices = 0;
    std::int64_t usable = 0;
  };
  enum class Placed : std::uint8_t { kNotYet, kBefore };
  Candidates hosts_for(const MeshConfig& mesh, const std::vector<std::vector<std::string>>& others,
                       Placed placed);
  void spawn(const MeshConfig& mesh, const actors::OnHosts& where);
  /// By mesh, the ranks that do not answer.
  std::vector<std::set<std::uint32_t>> find_broken(Nanoseconds patience) const;

  static constexpr int kReservedDescriptors = 32;

  actors::Cluster& cluster_;
  const std::vector<std::byte> batches_;
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
  std::vector<std::size_t> missing_;               ///< By mesh: ranks that no device was found for.
  std::string problem_;                            ///< Then.
  std::set<transfer::DeviceId> fresh_;
  std::uint64_t epoch_ = 0;  ///< Grows with each epoch of any mesh.
};

}  // namespace weft::mesh

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/head/actor_messages.h"
#include "actors/head/cluster_messages.h"

namespace weft::actors {

// Rows of a head's state, which the head of the next term reads.

struct HostRow {
  HostRegistration offer;
  ProcessRef agent;
  static constexpr auto fields = weft::fields(&HostRow::offer, &HostRow::agent);
};

struct OwnerRow {
  OwnerRegistration offer;
  ProcessRef process;
  static constexpr auto fields = weft::fields(&OwnerRow::offer, &OwnerRow::process);
};

struct MeshRow {
  MeshRequest request;
  ProcessId owner;
  std::vector<HostDevice> places;
  /// Ranks whose device is not the mesh's any more: the host was removed, the device was freed, or
  /// it belongs to the next epoch. Another host of that name may have joined.
  std::set<std::uint32_t> detached_ranks;
  std::set<std::uint32_t> dead;  ///< Ranks whose process has died, or counts as dead.
  /// Processes by rank. Empty while the mesh starts; process 0 for ranks to be renewed.
  std::vector<DeviceProcess> processes;
  std::vector<std::string> devices;  ///< Descriptions by rank; empty until the owner sends them.
  std::optional<Incident> incident;  ///< Set if the mesh has failed.
  bool releasing = false;  ///< True if it is being released: only its devices are still taken.
  /// True for a process of an owner on a host in which actors of its meshes run; see
  /// SharedProcesses. A mesh of one.
  bool is_shared_process = false;
  static constexpr auto fields =
      weft::fields(&MeshRow::request, &MeshRow::owner, &MeshRow::places, &MeshRow::detached_ranks,
                   &MeshRow::dead, &MeshRow::processes, &MeshRow::devices, &MeshRow::incident,
                   &MeshRow::releasing, &MeshRow::is_shared_process);
};

/// Earlier incarnation of a named actor.
struct FormerActor {
  ProcessId process;
  ActorId actor;
  std::uint32_t rank = 0;
  static constexpr auto fields =
      weft::fields(&FormerActor::process, &FormerActor::actor, &FormerActor::rank);
};

/// Name of actors, which is the name of their mesh.
struct ActorRow {
  ProcessId owner;
  NamedActors actors;
  std::vector<FormerActor> former;  ///< The latest last.
  static constexpr auto fields =
      weft::fields(&ActorRow::owner, &ActorRow::actors, &ActorRow::former);
};

struct ReservationRow {
  ReservationRequest request;
  ProcessId owner;
  std::vector<BundlePlace> places;  ///< By bundle.
  /// True if it is of the former driver of a run, and the next one, its owner now, has not listed
  /// it yet.
  bool inherited = false;
  static constexpr auto fields = weft::fields(&ReservationRow::request, &ReservationRow::owner,
                                              &ReservationRow::places, &ReservationRow::inherited);
};

/// Throws Error(kDataLoss) for a row that no head has written, such as one with a rank outside the
/// mesh.
void check_row(const HostRow& row);
void check_row(const MeshRow& row);
void check_row(const ActorRow& row);
void check_row(const ReservationRow& row);
/// The same for the actors of such a row.
void check_actors(const NamedActors& actors);

/// Returns whether a host runs on the machine of this process.
bool is_on_this_machine(const HostRegistration& host);

}  // namespace weft::actors

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/agent/agent_messages.h"
#include "actors/agent/resources.h"
#include "actors/supervision/incident.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/codec/codec.h"
#include "core/tensor/mesh_shape.h"

namespace weft::actors {

/// Registration of a host, which its agent sends to join().
struct HostRegistration {
  std::string name;
  std::uint32_t devices = 0;
  std::int64_t pid = 0;         ///< Process id of its agent.
  std::string machine;          ///< Result of gethostname() there.
  std::string instruction_set;  ///< "avx512", "avx2", ... Runs on mixed hosts use the lowest.
  bool has_parent = false;      ///< True if a parent reaps the agent and reports its death.
  std::string log_directory;
  std::uint32_t processors = 0;  ///< Processors that the agent may use.
  /// Earlier agent of this name, which does not answer the head and is known to have ended.
  ProcessId replaces = {};
  HostCapacity capacity = {};
  static constexpr auto fields = weft::fields(
      &HostRegistration::name, &HostRegistration::devices, &HostRegistration::pid,
      &HostRegistration::machine, &HostRegistration::instruction_set, &HostRegistration::has_parent,
      &HostRegistration::log_directory, &HostRegistration::processors, &HostRegistration::replaces,
      &HostRegistration::capacity);
};

/// Holder of the name that a joining host wants: an agent that does not answer, and may live.
struct NameHolder {
  ProcessId agent;
  std::int64_t pid = 0;
  std::string machine;
  /// Time until the name is free. 0: the head has just noticed the silence.
  std::int64_t free_in_ns = 0;
  static constexpr auto fields = weft::fields(&NameHolder::agent, &NameHolder::pid,
                                              &NameHolder::machine, &NameHolder::free_in_ns);
};

/// Request to place a mesh.
struct MeshRequest {
  std::string mesh;
  MeshShape shape;
  std::vector<std::string> hosts;  ///< Hosts in the order in which ranks fill them; empty: all.
  /// Path of the device processes' executable on the hosts.
  std::string binary;
  std::string binary_sha256;
  std::vector<std::string> environment;  ///< "KEY=VALUE" for its device processes.
  std::uint64_t memory_cap = 0;          ///< Cap of each of them, in bytes; 0: none.
  /// Device of each process to start, by rank. Empty: the head chooses among `hosts`.
  std::vector<HostDevice> places = {};
  std::uint64_t run = 0;  ///< See SystemOptions::run.
  /// Resources that each rank needs. With devices, each rank has a process of its own. Cluster sets
  /// SpawnOptions::needs, which is empty by default.
  Resources needs = {.devices = 1};
  ActorProcess process = ActorProcess::kOwn;
  PlacementStrategy strategy = PlacementStrategy::kDefault;
  std::map<std::string, std::string> labels = {};  ///< Labels that each host must have.
  /// Reservation in whose bundles the ranks go: rank i in bundle first_bundle + i. Empty name:
  /// none.
  MeshKey reservation = {};
  std::uint32_t first_bundle = 0;
  /// Name of the mesh of the actor that spawns it. Empty: the owner itself does.
  std::string parent_mesh = {};
  static constexpr auto fields = weft::fields(
      &MeshRequest::mesh, &MeshRequest::shape, &MeshRequest::hosts, &MeshRequest::binary,
      &MeshRequest::binary_sha256, &MeshRequest::environment, &MeshRequest::memory_cap,
      &MeshRequest::places, &MeshRequest::run, &MeshRequest::needs, &MeshRequest::process,
      &MeshRequest::strategy, &MeshRequest::labels, &MeshRequest::reservation,
      &MeshRequest::first_bundle, &MeshRequest::parent_mesh);
};

/// Mesh of a run, each rank of which needs a device.
struct WantedMesh {
  std::string name;
  MeshShape shape;
  std::vector<std::string> hosts;  ///< Hosts in the order in which ranks fill them; empty: all.
  friend bool operator==(const WantedMesh&, const WantedMesh&) = default;
  static constexpr auto fields =
      weft::fields(&WantedMesh::name, &WantedMesh::shape, &WantedMesh::hosts);
};

/// Request to reserve bundles of resources. A bundle is on one host.
struct ReservationRequest {
  std::string name;
  std::vector<Resources> bundles;
  std::vector<std::string> hosts = {};  ///< Hosts in the order of preference; empty: all.
  PlacementStrategy strategy = PlacementStrategy::kDefault;
  std::map<std::string, std::string> labels = {};  ///< Labels that each host must have.
  /// Time to wait until others free the resources. Above kLongestWait: as long as that.
  std::int64_t within_ns = 0;
  /// Meshes of a run, whose ranks in this order are the bundles, of one device each. place_run()
  /// finds their places. Such a reservation lasts until they have started: its bundles do not move,
  /// and it ends with its driver. Empty: bundles of any kind.
  std::vector<WantedMesh> meshes = {};
  /// Hosts for meshes whose own hosts have too few devices.
  std::vector<std::string> spares = {};
  static constexpr Nanoseconds kLongestWait = std::chrono::hours(10 * 365 * 24);
  static constexpr auto fields = weft::fields(
      &ReservationRequest::name, &ReservationRequest::bundles, &ReservationRequest::hosts,
      &ReservationRequest::strategy, &ReservationRequest::labels, &ReservationRequest::within_ns,
      &ReservationRequest::meshes, &ReservationRequest::spares);
};

/// Place of a bundle of a reservation.
struct BundlePlace {
  std::string host;  ///< Empty: its host was removed, and no other host has room at the moment.
  std::vector<std::uint32_t> devices = {};
  friend bool operator==(const BundlePlace&, const BundlePlace&) = default;
  static constexpr auto fields = weft::fields(&BundlePlace::host, &BundlePlace::devices);
};

/// Reservation that was granted. The epoch of its key is unique in the cluster.
struct ReservedBundles {
  MeshKey key;
  std::vector<BundlePlace> places;  ///< By bundle.
  static constexpr auto fields = weft::fields(&ReservedBundles::key, &ReservedBundles::places);
};

/// Name of the meshes of shared processes, and of their logs. No other mesh can have it.
inline constexpr const char* kSharedProcessName = "shared-process";

/// Returns whether the actors of a mesh run in the shared processes of their hosts.
inline bool uses_shared_processes(const MeshRequest& request) {
  return request.needs.devices == 0 && request.process == ActorProcess::kShared;
}

/// Processes of a mesh that the head has started, by rank.
struct MeshProcesses {
  MeshKey key;
  std::vector<DeviceProcess> processes;
  /// kShared: other meshes may have ranks in them, and they do not end with this mesh.
  ActorProcess process = ActorProcess::kOwn;
  std::string parent_mesh = {};  ///< See MeshRequest.
  static constexpr auto fields = weft::fields(&MeshProcesses::key, &MeshProcesses::processes,
                                              &MeshProcesses::process, &MeshProcesses::parent_mesh);
};

/// Reply to a process that joins the cluster.
struct JoinReply {
  std::string cluster;     ///< Id of the cluster, made at the head's first start.
  std::uint64_t term = 0;  ///< Number that grows with every start of the head.
  /// Time that members wait for a head, and the head for members that do not answer.
  std::int64_t grace_ns = 0;
  /// Set if the host has not joined, as its name is not free.
  std::optional<NameHolder> name_holder = {};
  /// Meshes of the former driver, which now belong to the driver that was started again.
  std::vector<MeshProcesses> adopted_meshes = {};
  static constexpr auto fields =
      weft::fields(&JoinReply::cluster, &JoinReply::term, &JoinReply::grace_ns,
                   &JoinReply::name_holder, &JoinReply::adopted_meshes);
};

/// Request for the next epoch of a mesh in which processes have died, from its owner.
struct MeshRenewal {
  MeshKey key;
  MeshRequest request;  ///< Same shape as before. In `hosts`, spares may come last.
  /// Ranks to be replaced, even if their processes live. Shared processes that live stay.
  std::vector<std::uint32_t> broken;
  static constexpr auto fields =
      weft::fields(&MeshRenewal::key, &MeshRenewal::request, &MeshRenewal::broken);
};

/// Next epoch of a mesh: living processes continue in it, others are new.
struct RenewedMesh {
  MeshKey key;
  /// Processes by rank. Process 0 for a rank without one: no device was free, or it has died
  /// meanwhile.
  std::vector<DeviceProcess> processes;
  std::string problem;                       ///< Why some are missing; else empty.
  ErrorCode code = ErrorCode::kUnavailable;  ///< Code of the problem.
  static constexpr auto fields = weft::fields(&RenewedMesh::key, &RenewedMesh::processes,
                                              &RenewedMesh::problem, &RenewedMesh::code);
};

/// Host with the users of its devices, as input of a placement.
struct HostDevices {
  std::string name;
  bool accepts_processes = true;  ///< False: nothing can start there at the moment.
  std::vector<MeshKey> users;     ///< Users by device; empty name: free.
  friend bool operator==(const HostDevices&, const HostDevices&) = default;
  static constexpr auto fields =
      weft::fields(&HostDevices::name, &HostDevices::accepts_processes, &HostDevices::users);
};

/// All hosts of a cluster, in the order of joining.
struct DeviceSnapshot {
  /// Changes when a host joins, leaves, stops answering or answers again, or a device becomes free.
  std::uint64_t version = 0;
  std::vector<HostDevices> hosts;
  static constexpr auto fields = weft::fields(&DeviceSnapshot::version, &DeviceSnapshot::hosts);
};

/// Registration of an owner: a program that owns meshes, which end with it.
struct OwnerRegistration {
  std::string name;  ///< "run quickstart"
  std::int64_t pid = 0;
  std::vector<MeshKey> held_meshes = {};        ///< Meshes that it has, if it reconnects.
  std::vector<MeshKey> held_reservations = {};  ///< The same for reservations.
  std::string run = {};          ///< Machine and folder of its results; may be empty.
  bool replaces_driver = false;  ///< True if the former driver of that run has been reaped.
  /// True for the owner of the actors that outlive runs, which replaces the former one.
  bool is_keeper = false;
  static constexpr auto fields = weft::fields(
      &OwnerRegistration::name, &OwnerRegistration::pid, &OwnerRegistration::held_meshes,
      &OwnerRegistration::held_reservations, &OwnerRegistration::run,
      &OwnerRegistration::replaces_driver, &OwnerRegistration::is_keeper);
};

/// Death of a host's agent, reported by the agent's parent.
struct HostDeath {
  std::string host;
  ExitReport evidence;
  static constexpr auto fields = weft::fields(&HostDeath::host, &HostDeath::evidence);
};

/// Report to the owner of a mesh in which a process has died.
struct MeshFailure {
  Incident incident;
  std::vector<ProcessId> mesh_processes;  ///< All processes of the mesh, dead or alive.
  std::vector<ProcessId> dead;            ///< Processes that have died or count as dead.
  static constexpr auto fields =
      weft::fields(&MeshFailure::incident, &MeshFailure::mesh_processes, &MeshFailure::dead);
};

/// Descriptions of a mesh's devices, by rank: "cuda (NVIDIA H200, ...)". Only for `weft status`.
struct MeshDevices {
  MeshKey key;
  std::vector<std::string> devices;
  static constexpr auto fields = weft::fields(&MeshDevices::key, &MeshDevices::devices);
};

/// Progress of a program that owns meshes. Only for display.
struct RunProgress {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  double loss = 0;
  double units_per_second = 0;
  std::string unit;  ///< "tokens"
  double seconds_left = 0;
  static constexpr auto fields =
      weft::fields(&RunProgress::step, &RunProgress::total_steps, &RunProgress::loss,
                   &RunProgress::units_per_second, &RunProgress::unit, &RunProgress::seconds_left);
};

/// Run in `weft status`.
struct RunStatus {
  std::string name;  ///< "run quickstart"; a second one of that name: "run quickstart#2".
  std::int64_t pid = 0;
  bool has_progress = false;  ///< True once it has reported progress.
  RunProgress progress;
  double progress_age_seconds = 0;  ///< Time since its last report.
  /// Time since its driver stopped answering, or died. Empty: it answers.
  std::optional<double> unreachable_seconds = {};
  static constexpr auto fields = weft::fields(
      &RunStatus::name, &RunStatus::pid, &RunStatus::has_progress, &RunStatus::progress,
      &RunStatus::progress_age_seconds, &RunStatus::unreachable_seconds);
};
struct HostStatus {
  HostRegistration offer;
  std::string address;
  /// User by device: "front[data=0] pid 4121, cpu (avx2, 1 thread)". Empty: free.
  std::vector<std::string> device_users;
  double joined_seconds = 0;  ///< Time since it joined.
  /// Time since its connection was lost. Empty: connected.
  std::optional<double> unreachable_seconds = {};
  bool suspect = false;  ///< True if nothing has arrived from it for some seconds.
  bool leaving = false;  ///< True if its agent ends once its devices are unused.
  ProcessRef agent = {};
  Resources total = {};  ///< Resources of the host.
  Resources used = {};   ///< Those that meshes and reservations have.
  /// Processes without devices: "shared process of run quickstart: 12 actors, pid 4121".
  std::vector<std::string> other_processes = {};
  static constexpr auto fields =
      weft::fields(&HostStatus::offer, &HostStatus::address, &HostStatus::device_users,
                   &HostStatus::joined_seconds, &HostStatus::unreachable_seconds,
                   &HostStatus::suspect, &HostStatus::leaving, &HostStatus::agent,
                   &HostStatus::total, &HostStatus::used, &HostStatus::other_processes);
};
struct MeshStatus {
  MeshKey key;
  std::string shape;
  std::string owner;  ///< Name of a run; empty if the owner has ended.
  std::string state;  ///< "starting", "running", "failed", "recovering", "ending"
  std::vector<HostDevice> places;
  bool is_shared = false;  ///< True if its actors run in shared processes.
  static constexpr auto fields =
      weft::fields(&MeshStatus::key, &MeshStatus::shape, &MeshStatus::owner, &MeshStatus::state,
                   &MeshStatus::places, &MeshStatus::is_shared);
};
struct ReservationStatus {
  std::string name;
  std::string owner;  ///< Name of a run.
  std::string needs;  ///< "4 x {devices 1, cpus 2}"
  bool waiting = false;
  /// Reason why it waits, or has bundles without a place: "2 of 4 bundles fit now". Else empty.
  std::string problem;
  std::vector<BundlePlace> places;        ///< By bundle; empty while it waits.
  std::vector<std::string> bundle_users;  ///< Meshes by bundle: "pool, eval". Empty: unused.
  static constexpr auto fields =
      weft::fields(&ReservationStatus::name, &ReservationStatus::owner, &ReservationStatus::needs,
                   &ReservationStatus::waiting, &ReservationStatus::problem,
                   &ReservationStatus::places, &ReservationStatus::bundle_users);
};
/// Result of `weft token rotate`.
struct TokenRotation {
  std::string file;            ///< Path on the head's machine.
  std::uint32_t notified = 0;  ///< Number of processes to which the head has sent it.
  /// Names of those connected without TLS, which it was not sent to.
  std::vector<std::string> not_notified;
  static constexpr auto fields =
      weft::fields(&TokenRotation::file, &TokenRotation::notified, &TokenRotation::not_notified);
};
struct ClusterEvent {
  std::int64_t unix_ms = 0;
  std::string text;
  static constexpr auto fields = weft::fields(&ClusterEvent::unix_ms, &ClusterEvent::text);
};
struct ClusterStatus {
  std::string cluster;
  std::uint64_t term = 0;
  std::string address;
  std::int64_t pid = 0;
  double up_seconds = 0;
  std::vector<HostStatus> hosts;
  std::vector<MeshStatus> meshes;
  std::vector<RunStatus> runs;
  std::vector<ClusterEvent> events;  ///< Latest events.
  std::vector<ReservationStatus> reservations = {};
  static constexpr auto fields = weft::fields(
      &ClusterStatus::cluster, &ClusterStatus::term, &ClusterStatus::address, &ClusterStatus::pid,
      &ClusterStatus::up_seconds, &ClusterStatus::hosts, &ClusterStatus::meshes,
      &ClusterStatus::runs, &ClusterStatus::events, &ClusterStatus::reservations);
};

}  // namespace weft::actors

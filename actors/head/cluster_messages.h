#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/agent/agent_messages.h"
#include "actors/supervision/incident.h"
#include "core/base/error.h"
#include "core/codec/codec.h"
#include "core/tensor/mesh_shape.h"

namespace weft::actors {

/// What a host is, as it says itself when it joins.
struct HostOffer {
  std::string name;
  std::uint32_t devices = 0;
  std::int64_t pid = 0;         ///< of its agent
  std::string machine;          ///< what gethostname() says there
  std::string instruction_set;  ///< "avx512", "avx2", ...; a run on mixed hosts pins the lowest
  bool has_parent = false;      ///< somebody reaps the agent and will tell why it died
  std::string log_directory;
  std::uint32_t processors = 0;  ///< that the agent may use
  /// An agent of this name that does not answer the head, and of which this one knows that it is
  /// gone.
  ProcessId replaces = {};
  static constexpr auto fields =
      weft::fields(&HostOffer::name, &HostOffer::devices, &HostOffer::pid, &HostOffer::machine,
                   &HostOffer::instruction_set, &HostOffer::has_parent, &HostOffer::log_directory,
                   &HostOffer::processors, &HostOffer::replaces);
};

/// The name of a host that joins belongs to an agent that does not answer, and may live. Zero
/// `free_in_ns`: the head has just found that it does not answer.
struct HeldName {
  ProcessId agent;
  std::int64_t pid = 0;
  std::string machine;
  std::int64_t free_in_ns = 0;  ///< if it stays silent
  static constexpr auto fields =
      weft::fields(&HeldName::agent, &HeldName::pid, &HeldName::machine, &HeldName::free_in_ns);
};

/// What a mesh needs.
struct MeshRequest {
  std::string mesh;
  MeshShape shape;
  std::vector<std::string> hosts;  ///< in the order in which ranks fill them; empty: all hosts
  /// the executable of its device processes, as a path on the hosts
  std::string binary;
  std::string binary_sha256;
  std::vector<std::string> environment;  ///< "KEY=VALUE" for its device processes
  std::uint64_t memory_cap = 0;          ///< of each of them, in bytes; 0: none
  /// By rank, the device of each process that is to start; empty: the head chooses among `hosts`.
  std::vector<HostDevice> places = {};
  static constexpr auto fields =
      weft::fields(&MeshRequest::mesh, &MeshRequest::shape, &MeshRequest::hosts,
                   &MeshRequest::binary, &MeshRequest::binary_sha256, &MeshRequest::environment,
                   &MeshRequest::memory_cap, &MeshRequest::places);
};

/// The mesh that the head has started: one process per rank, in the order of ranks.
struct MeshProcesses {
  MeshKey key;
  std::vector<DeviceProcess> processes;
  static constexpr auto fields = weft::fields(&MeshProcesses::key, &MeshProcesses::processes);
};

/// The head's answer to a process that belongs to its cluster from here on.
struct Joined {
  std::string cluster;     ///< id of the cluster, made at the head's first start
  std::uint64_t term = 0;  ///< grows with every start of the head
  /// How long who belongs to the cluster waits for a head, and the head for who does not answer.
  std::int64_t grace_ns = 0;
  std::optional<HeldName> held = {};  ///< The host has not joined: its name is not free.
  /// For a driver that was started again: the meshes of the one before it, which it owns now.
  std::vector<MeshProcesses> inherited = {};
  static constexpr auto fields = weft::fields(&Joined::cluster, &Joined::term, &Joined::grace_ns,
                                              &Joined::held, &Joined::inherited);
};

/// From the owner of a mesh of which processes have died: its next epoch.
struct MeshRenewal {
  MeshKey key;
  MeshRequest request;                ///< of the same shape; in `hosts` spares may come last
  std::vector<std::uint32_t> broken;  ///< ranks whose processes are of no use, though they may live
  static constexpr auto fields =
      weft::fields(&MeshRenewal::key, &MeshRenewal::request, &MeshRenewal::broken);
};

/// The next epoch of a mesh: processes that live go on in it, others are new.
struct RenewedMesh {
  MeshKey key;
  /// By rank; of process 0 where there is none, as there was no device, or it has died meanwhile.
  std::vector<DeviceProcess> processes;
  std::string problem;                       ///< Why some are missing; else empty.
  ErrorCode code = ErrorCode::kUnavailable;  ///< of the problem
  static constexpr auto fields = weft::fields(&RenewedMesh::key, &RenewedMesh::processes,
                                              &RenewedMesh::problem, &RenewedMesh::code);
};

/// A host, and which of its devices are whose: what a placement is made from.
struct HostPlaces {
  std::string name;
  bool answers = true;         ///< false: nothing can start there at the moment
  std::vector<MeshKey> users;  ///< by device; of an empty name: it is free
  friend bool operator==(const HostPlaces&, const HostPlaces&) = default;
  static constexpr auto fields =
      weft::fields(&HostPlaces::name, &HostPlaces::answers, &HostPlaces::users);
};

/// All hosts of a cluster, in the order of joining.
struct ClusterPlaces {
  /// Another number as soon as a host comes, goes, answers again or not, or a device is free.
  std::uint64_t version = 0;
  std::vector<HostPlaces> hosts;
  static constexpr auto fields = weft::fields(&ClusterPlaces::version, &ClusterPlaces::hosts);
};

/// A program that will own meshes: its meshes end with it.
struct OwnerOffer {
  std::string name;  ///< "run quickstart"
  std::int64_t pid = 0;
  std::vector<MeshKey> meshes = {};  ///< that it has, when it was here before
  std::string run = {};              ///< Where its results go, and on which machine; or empty.
  bool restarted = false;            ///< The driver of that run before it has been reaped.
  static constexpr auto fields =
      weft::fields(&OwnerOffer::name, &OwnerOffer::pid, &OwnerOffer::meshes, &OwnerOffer::run,
                   &OwnerOffer::restarted);
};

/// Why a whole host is gone, from the parent of its agent.
struct HostDeath {
  std::string host;
  ExitEvidence evidence;
  static constexpr auto fields = weft::fields(&HostDeath::host, &HostDeath::evidence);
};

/// What the owner of a mesh is told when one of its processes falls.
struct MeshFailure {
  Incident incident;
  std::vector<ProcessId> processes;  ///< of the whole mesh: none of them can be counted on any more
  std::vector<ProcessId> dead;       ///< those of them that are gone, or count as gone
  static constexpr auto fields =
      weft::fields(&MeshFailure::incident, &MeshFailure::processes, &MeshFailure::dead);
};

/// What the devices of a mesh turned out to be, by rank: "cuda (NVIDIA H200, ...)". For `weft
/// status` only.
struct MeshDevices {
  MeshKey key;
  std::vector<std::string> devices;
  static constexpr auto fields = weft::fields(&MeshDevices::key, &MeshDevices::devices);
};

/// How far a program that owns meshes has come. For `weft status` only.
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

/// For `weft status`.
struct RunStatus {
  std::string name;  ///< "run quickstart"; the second of that name "run quickstart#2"
  std::int64_t pid = 0;
  bool has_progress = false;  ///< It has said how far it is.
  RunProgress progress;
  double told_seconds = 0;                  ///< How long ago.
  std::optional<double> away_seconds = {};  ///< Since when its driver does not answer, or is gone.
  static constexpr auto fields =
      weft::fields(&RunStatus::name, &RunStatus::pid, &RunStatus::has_progress,
                   &RunStatus::progress, &RunStatus::told_seconds, &RunStatus::away_seconds);
};
struct HostStatus {
  HostOffer offer;
  std::string address;
  /// by device: "front[data=0] pid 4121, cpu (avx2, 1 thread)", empty when free
  std::vector<std::string> device_users;
  double joined_seconds = 0;                ///< how long ago
  std::optional<double> away_seconds = {};  ///< since when its connection is gone
  bool suspect = false;                     ///< Nothing has come from it for some seconds.
  bool leaving = false;                     ///< Its agent ends when nobody uses its devices.
  ProcessRef agent = {};
  static constexpr auto fields =
      weft::fields(&HostStatus::offer, &HostStatus::address, &HostStatus::device_users,
                   &HostStatus::joined_seconds, &HostStatus::away_seconds, &HostStatus::suspect,
                   &HostStatus::leaving, &HostStatus::agent);
};
struct MeshStatus {
  MeshKey key;
  std::string shape;
  std::string owner;  ///< The name of a run; empty when that has gone.
  std::string state;  ///< "starting", "running", "failed", "recovering", "ending"
  std::vector<HostDevice> places;
  static constexpr auto fields =
      weft::fields(&MeshStatus::key, &MeshStatus::shape, &MeshStatus::owner, &MeshStatus::state,
                   &MeshStatus::places);
};
/// What `weft token rotate` has done.
struct RotatedToken {
  std::string file;                   ///< on the head's machine
  std::uint32_t told = 0;             ///< processes that were given it by the head itself
  std::vector<std::string> not_told;  ///< names of those that are reached without TLS
  static constexpr auto fields =
      weft::fields(&RotatedToken::file, &RotatedToken::told, &RotatedToken::not_told);
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
  std::vector<ClusterEvent> events;  ///< the last ones
  static constexpr auto fields =
      weft::fields(&ClusterStatus::cluster, &ClusterStatus::term, &ClusterStatus::address,
                   &ClusterStatus::pid, &ClusterStatus::up_seconds, &ClusterStatus::hosts,
                   &ClusterStatus::meshes, &ClusterStatus::runs, &ClusterStatus::events);
};

}  // namespace weft::actors

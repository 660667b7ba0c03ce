#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/agent/resources.h"
#include "actors/head/cluster_messages.h"
#include "actors/supervision/incident.h"
#include "core/base/clock.h"

namespace weft::actors {

/// Executable of the processes of actors.
struct DeviceExecutable {
  std::string path;  ///< On their hosts.
  std::string sha256;
  std::uint64_t memory_cap = 0;  ///< Limit of each process, in bytes; 0: none.
};

/// Placement of a mesh on these hosts only; without hosts, on all. pack() fills the hosts in this
/// order, or else in the order of joining. spread() takes the host with the fewest actors of the
/// mesh, then the least used one, then the first in this order. Without a strategy: pack() for
/// actors with devices, spread() for others.
///
///   cluster.spawn<Worker>("pool", {{"worker", 64}}, {.place = spread().label("zone", "a")});
struct MeshPlacement {
  std::vector<std::string> hosts = {};
  /// Environment of the actors' processes, "KEY=VALUE", added to the cluster's own.
  std::vector<std::string> environment = {};
  /// Device of each process that is to start, by rank; empty: the head chooses among `hosts`.
  std::vector<HostDevice> places = {};
  /// Absent: that of the cluster.
  std::optional<DeviceExecutable> executable = {};
  PlacementStrategy strategy = PlacementStrategy::kDefault;
  std::map<std::string, std::string> labels = {};  ///< Labels that each host must have.
  /// Reservation in whose bundles the ranks go; see Reservation::place(). Empty name: none.
  MeshKey reservation = {};
  std::uint32_t first_bundle = 0;  ///< Bundle of rank 0.

  /// Returns a copy that also requires hosts to have this label.
  MeshPlacement label(std::string key, std::string value) const {
    MeshPlacement copy = *this;
    copy.labels.insert_or_assign(std::move(key), std::move(value));
    return copy;
  }
};
inline MeshPlacement pack() { return {.strategy = PlacementStrategy::kPack}; }
inline MeshPlacement spread() { return {.strategy = PlacementStrategy::kSpread}; }
inline MeshPlacement strict_pack() { return {.strategy = PlacementStrategy::kStrictPack}; }
inline MeshPlacement strict_spread() { return {.strategy = PlacementStrategy::kStrictSpread}; }

/// Policy for the death of a process of a mesh. A restarted actor is constructed with the
/// arguments of spawn(), in a new process, or in its shared one if that lives;
/// Context::restart_info() tells it.
enum class OnFailure : std::uint8_t {
  /// one_for_one if restarts are allowed. Else escalate for actors without devices, and
  /// ClusterOptions::failure_scope counts for others.
  kUnspecified,
  /// The mesh fails: calls of its owner to any of its actors, and all calls to dead ones, fail with
  /// the incident. Live actors run until the owner stops the mesh; children are stopped. Other
  /// meshes are not touched.
  kEscalate,
  kOneForOne,   ///< The dead actors are restarted.
  kOneForAll,   ///< All actors of the mesh are restarted.
  kRestForOne,  ///< The first dead actor and those of higher ranks are restarted.
};
inline constexpr OnFailure escalate = OnFailure::kEscalate;
inline constexpr OnFailure one_for_one = OnFailure::kOneForOne;
inline constexpr OnFailure one_for_all = OnFailure::kOneForAll;
inline constexpr OnFailure rest_for_one = OnFailure::kRestForOne;

/// Time for which actors live.
enum class Lifetime : std::uint8_t {
  kRun,  ///< Actors end with their ActorMesh or OwnedActor.
  /// The head owns the actors, until an operator stops them or the cluster. It restarts them
  /// (kOneForOne) if no policy is given.
  kCluster,
};

/// What spawn() does if its run has actors of that name already.
enum class IfExists : std::uint8_t {
  kFail,  ///< Throws Error(kAlreadyExists).
  /// Returns a handle of the existing actors, whose class and shape must be equal. Ignores all
  /// other arguments.
  kUse,
};

/// Options of Cluster::spawn(). A value.
///
///   cluster.spawn<Counter>("hits", {.restarts = 3});
///   cluster.spawn<Worker>("pool", {{"worker", 8}}, {.on_failure = rest_for_one}, arguments...);
struct SpawnOptions {
  MeshPlacement place = {};
  Resources needs = {};  ///< Resources of each actor, taken until its mesh is stopped.
  /// Actors that need devices have processes of their own in any case.
  ActorProcess process = ActorProcess::kShared;
  OnFailure on_failure = OnFailure::kUnspecified;
  /// Restarts of the whole mesh, not of each actor, within the time `within`. The death of a
  /// process counts once, however many ranks it had; a constructor that throws counts, too. After
  /// one more death the mesh fails; see OnFailure::kEscalate. Absent: kDefaultRestarts if
  /// `on_failure` or `decide` asks for restarts. They do not count against `recovery.restarts` of a
  /// run.
  std::optional<std::size_t> restarts = {};
  Nanoseconds within = std::chrono::minutes(10);
  /// Decides for each incident in place of `on_failure`. Runs on a thread of the cluster, and for
  /// Context::spawn() on the thread of the parent, within 10 s. An exception escalates. May be
  /// empty.
  std::function<OnFailure(const Incident&)> decide = {};

  IfExists if_exists = IfExists::kFail;
  /// With kCluster the name is unique among the actors of the cluster. `decide`, `place.places` and
  /// a reservation cannot be given.
  Lifetime lifetime = Lifetime::kRun;

  static constexpr std::size_t kDefaultRestarts = 3;
  /// Returns whether a death concerns this mesh alone, as its policy says. For devices without a
  /// policy the failure scope of the cluster counts.
  bool supervised() const {
    return needs.devices == 0 || decide || restarts.value_or(0) > 0 ||
           on_failure != OnFailure::kUnspecified;
  }
  /// Returns the policy of a supervised mesh, unless `decide` gives another.
  OnFailure policy() const {
    if (on_failure != OnFailure::kUnspecified) return on_failure;
    return restarts.value_or(0) > 0 ? OnFailure::kOneForOne : OnFailure::kEscalate;
  }
  /// Returns whether the actors run in the shared processes of their hosts.
  bool shares_processes() const { return needs.devices == 0 && process == ActorProcess::kShared; }
};

}  // namespace weft::actors

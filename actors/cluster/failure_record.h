#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "actors/head/cluster_messages.h"
#include "actors/supervision/incident.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Meshes that a dead process makes fail: all meshes of its owner, which a training step couples,
/// or its own.
enum class FailureScope { kAllMeshes, kOneMesh };

/// Record of the failures of an owner's meshes, and of the loss of its cluster. Knows whether the
/// owner survives deaths.
///
/// Owned by a Cluster, which records; the owner asks, and clears it before a recovery. Any thread.
class FailureRecord final {
 public:
  FailureRecord(FailureScope scope, bool survives_deaths);

  // Called by the owner.

  /// Returns the first failure since clear(), if there is one or it occurs within a time: a symptom
  /// may precede its cause. If `within` is not 0, waits longer while a silent or lost device
  /// process is not yet explained by its agent.
  std::optional<Error> first(Nanoseconds within = Nanoseconds::zero()) const;
  /// Returns the incident of first(); nullopt if no process died.
  std::optional<Incident> incident() const;
  /// Returns the first failure in short: "worker1 device 0 died: SIGKILL", "worker1 died: SIGKILL";
  /// the text of `error` if no process died.
  std::string root_cause(const Error& error) const;
  /// Clears the failures before a recovery: first() starts afresh. Throws the failure if the head
  /// or the cluster is lost, as nothing can be recovered then.
  void clear();
  /// Lets the owner survive deaths from now on. Calls that wait for any process of its meshes fail
  /// with the incident, later calls reach the live processes, and Cluster::renew() replaces the
  /// dead ones. A restarted driver survives deaths from the start.
  void survive_deaths();

  // Called by the Cluster.

  FailureScope scope() const { return scope_; }
  bool survives_deaths() const;
  /// Throws the first failure if the owner may spawn no mesh after it.
  void check_spawn() const;
  /// Records the failure of the incident's mesh. It becomes first() if there is none and `counts`
  /// returns true, which is called under the lock of this object. Returns false if that mesh is
  /// known to have failed: a head that returns repeats its reports, and several processes may die.
  bool record(const Incident& incident, const std::function<bool()>& counts);
  /// Records the loss of the head or the cluster. Returns false if it is known.
  bool record_cluster_loss(const Error& error);
  bool is_cluster_lost() const;
  /// Records that a device process of the mesh is silent or lost, unless the mesh has failed.
  /// `is_held` is called under the lock of this object; returns false if the mesh was released.
  void record_lost_device(const MeshKey& mesh, const std::function<bool()>& is_held);
  bool has_failed(const MeshKey& mesh) const;
  /// Returns the failure of a mesh, if there is one or it occurs within a time. Does not wait if
  /// the cluster is lost.
  std::optional<Error> of_mesh(const MeshKey& mesh, Nanoseconds within) const;
  /// Blocks while a lost device process is not explained, for a limited time.
  void wait_for_explanation() const;
  /// Blocks until there is a failure, or for a time.
  void wait_for_first(Nanoseconds within) const;
  /// Returns the number of meshes that have failed so far.
  std::size_t count() const;
  /// Blocks until count() differs from `seen` or the cluster is lost, or for a time. Returns false
  /// if the time has passed.
  bool wait_for_more(std::size_t seen, Nanoseconds within) const;

 private:
  const FailureScope scope_;
  mutable Mutex mutex_;
  mutable Condition changed_;
  std::map<MeshKey, Error> failed_;   // guarded by mutex_
  std::optional<Error> first_;        // guarded by mutex_
  std::optional<Incident> incident_;  // guarded by mutex_: of first_
  bool survives_deaths_;              // guarded by mutex_
  bool cluster_lost_ = false;         // guarded by mutex_
  // guarded by mutex_: a device process is silent or lost, and no incident explains that
  bool unexplained_loss_ = false;
};

}  // namespace weft::actors

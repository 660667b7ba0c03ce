#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/head/cluster_messages.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Registry of an owner's meshes: the device process of each rank. A rank without a process has
/// process id 0.
///
/// Owned by a Cluster, which changes it; the owner reads. Any thread.
class MeshRegistry final {
 public:
  /// Adds a mesh if `is_valid` returns true, which is called under the lock of this object. Returns
  /// its result.
  bool add_if(const std::function<bool()>& is_valid, const MeshProcesses& mesh);

  // Inherited meshes: those that the owner's predecessor left, until one is taken.
  void add_inherited(const MeshProcesses& mesh);
  /// Takes the inherited mesh of that name; nullopt if there is none. Waits for the end of its
  /// release, if that has begun.
  std::optional<MeshProcesses> take_inherited(const std::string& name);
  /// Takes the inherited meshes of that name and of all descendants of its actors, the descendants
  /// first. take_inherited() and begin_release() of these names wait until end_release().
  std::vector<MeshProcesses> begin_release(const std::string& name);
  /// Like begin_release(), for the descendants alone.
  std::vector<MeshProcesses> begin_release_of_children(const std::string& parent_mesh);
  /// Ends the release. `undone`: the meshes are inherited again.
  void end_release(const std::vector<MeshProcesses>& meshes, bool undone = false);
  /// Returns the names of inherited meshes that actors have spawned whose own mesh is not
  /// inherited.
  std::vector<std::string> orphans() const;
  /// Returns whether there is an inherited mesh of that name that was not taken.
  bool has_inherited(const std::string& name) const;
  /// Returns the names of the inherited meshes that were not taken.
  std::vector<std::string> inherited_names() const;
  /// Replaces an epoch of a mesh by another.
  void replace(const MeshKey& former, const MeshProcesses& mesh);
  /// Removes a mesh and returns it; nullopt if there is no such mesh.
  std::optional<MeshProcesses> remove(const MeshKey& mesh);

  bool contains(const MeshKey& mesh) const;
  std::vector<MeshKey> keys() const;
  /// Returns all meshes, in the order of their keys.
  std::vector<MeshProcesses> meshes() const;
  /// Returns the agents of all meshes so far, by host.
  std::map<std::string, ProcessRef> agents() const;

  /// Returns the devices of a mesh, by rank.
  std::vector<HostDevice> places_of(const MeshKey& mesh) const;
  /// Returns the ranks for which the last renewal found no process.
  std::set<std::uint32_t> missing_ranks(const MeshKey& mesh) const;
  /// Returns the device process of a rank; nullopt if there is no such mesh or rank.
  std::optional<DeviceProcess> device(const MeshKey& mesh, std::uint32_t rank) const;
  /// Returns "worker1 device 0 (pid 4121)"; "worker1 (pid 4121)" without a device.
  std::string describe_device(const MeshKey& mesh, std::uint32_t rank) const;

  /// Device process and its mesh.
  struct MeshMember {
    MeshKey mesh;
    DeviceProcess device;
  };
  /// Returns the members with that process, one for each mesh that has ranks in it.
  std::vector<MeshMember> find(ProcessId process) const;

 private:
  // Called under mutex_.
  void put(const MeshProcesses& mesh);
  void take_children(const std::string& parent_mesh, std::vector<MeshProcesses>& taken);
  void wait_until_released(std::unique_lock<Mutex>& lock, const std::string& name);

  mutable Mutex mutex_;
  Condition changed_;
  std::map<MeshKey, MeshProcesses> meshes_;   // guarded by mutex_
  std::map<std::string, MeshKey> inherited_;  // guarded by mutex_, by name
  std::set<std::string> releasing_;           // guarded by mutex_: names from begin_release()
  std::map<std::string, ProcessRef> agents_;  // guarded by mutex_, by host
};

}  // namespace weft::actors

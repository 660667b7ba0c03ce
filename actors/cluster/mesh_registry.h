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
  /// Adds a mesh that the owner's predecessor left, for take_inherited().
  void add_inherited(const MeshProcesses& mesh);
  /// Returns an inherited mesh of that name, once.
  std::optional<MeshProcesses> take_inherited(const std::string& name);
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
  void put(const MeshProcesses& mesh);  ///< Call it under mutex_.

  mutable Mutex mutex_;
  std::map<MeshKey, MeshProcesses> meshes_;   // guarded by mutex_
  std::map<std::string, MeshKey> inherited_;  // guarded by mutex_, by name
  std::map<std::string, ProcessRef> agents_;  // guarded by mutex_, by host
};

}  // namespace weft::actors

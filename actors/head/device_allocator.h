#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_messages.h"

namespace weft::actors {

/// Assignment of devices to meshes, and search for devices of new ones. Pure. One thread at a time.
class DeviceAllocator {
 public:
  /// Adds a host. Throws Error(kAlreadyExists) if it has one of that name.
  void add_host(const std::string& name, std::uint32_t devices);
  /// Removes a host and its devices. Meshes keep their devices elsewhere.
  void remove_host(const std::string& name);

  /// Marks a host as away, or as back. Nothing new is placed on a host that is away.
  void set_away(const std::string& name, bool away);
  /// Marks a host as leaving, for as long as it is here. Nothing new is placed on it.
  void set_leaving(const std::string& name);

  /// Returns the devices of request.places, if it has some; see check_free(). Else returns one free
  /// device per rank, over the hosts in the order of the request, and over each host's devices in
  /// order. Throws Error(kResourceExhausted) with a table of hosts if they do not suffice,
  /// Error(kNotFound) if a host has not joined, Error(kUnavailable) if it is away or leaves. All
  /// say what to do.
  std::vector<HostDevice> find_devices(const MeshRequest& request) const;
  /// Returns another device for each device that a mesh has lost: on the same host, or on the first
  /// of request.hosts that has one. Throws Error(kResourceExhausted) with a table of hosts.
  std::vector<HostDevice> find_replacements(const MeshRequest& request,
                                            const std::vector<HostDevice>& lost) const;
  /// Throws Error(kResourceExhausted) if one of them is not free, or its host is not available.
  void check_free(const std::string& mesh, const std::vector<HostDevice>& places) const;
  /// Returns the hosts in the order of joining.
  std::vector<HostDevices> hosts() const;
  /// Returns a number that grows when hosts change or devices become free.
  std::uint64_t changes() const { return changes_; }
  /// Assigns devices to a mesh. Skips hosts that have not joined.
  void assign(const std::vector<HostDevice>& places, const MeshKey& key);
  /// Frees the devices of a mesh, except those on hosts in `but_on`.
  void free(const MeshKey& key, const std::set<std::string>& but_on = {});
  /// Frees these devices.
  void free(const std::vector<HostDevice>& places);

  /// Returns "host     devices  free  in use by\nworker0  2        0     mesh front (2)\n...".
  std::string table() const;

 private:
  struct HostAllocation {
    std::string name;
    std::vector<MeshKey> users;  // Users by device; empty name: free.
    bool away = false;
    bool leaving = false;
    bool accepts_processes() const { return !away && !leaving; }
    std::uint32_t free() const;
  };
  const HostAllocation* find(const std::string& name) const;
  HostAllocation* find(const std::string& name) {
    return const_cast<HostAllocation*>(std::as_const(*this).find(name));
  }
  std::vector<std::string> names() const;
  /// Returns all hosts on which processes can start.
  std::vector<const HostAllocation*> usable_hosts() const;
  /// Returns the hosts that a mesh names. Throws what find_devices() throws if one of them cannot
  /// be used.
  std::vector<const HostAllocation*> usable_hosts(const std::string& mesh,
                                                  const std::vector<std::string>& wanted) const;

  std::vector<HostAllocation> hosts_;  // Hosts in the order of joining.
  std::uint64_t changes_ = 0;
};

}  // namespace weft::actors

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_messages.h"

namespace weft::actors {

/// Which device of which host belongs to whom, and where the next mesh goes. Pure; one thread at a
/// time.
class Placement {
 public:
  /// Throws Error(kAlreadyExists) when a host of that name is there.
  void add_host(const std::string& name, std::uint32_t devices);
  /// Its devices are gone; meshes keep the ones they have elsewhere.
  void remove_host(const std::string& name);

  /// Nothing new is placed on a host that is away.
  void set_away(const std::string& name, bool away);
  /// Nor on one that leaves the cluster. It does not come back under that agent.
  void set_leaving(const std::string& name);

  /// The devices of request.places, where it names them, see check_free(). Else one free device per
  /// rank: rank by rank over the hosts in the order of the request, each host's devices in order.
  /// Throws Error(kResourceExhausted) with a table of hosts when they do not
  /// suffice, Error(kNotFound) when a host has not joined, Error(kUnavailable) when it is away; all
  /// say what to do.
  std::vector<HostDevice> find_places(const MeshRequest& request) const;
  /// Another device for each of those that a mesh has lost: on the same host, or the first of
  /// request.hosts that has one. Throws Error(kResourceExhausted) with a table of hosts.
  std::vector<HostDevice> find_replacements(const MeshRequest& request,
                                            const std::vector<HostDevice>& lost) const;
  /// Throws Error(kResourceExhausted) where one of them is not free, or its host is not there.
  void check_free(const std::string& mesh, const std::vector<HostDevice>& places) const;
  /// In the order of joining.
  std::vector<HostPlaces> hosts() const;
  /// How often something has become possible or impossible: hosts, and devices that are free again.
  std::uint64_t changes() const { return changes_; }
  /// These devices are the mesh's, as far as their hosts are here.
  void take(const std::vector<HostDevice>& places, const MeshKey& key);
  void give_back(const MeshKey& key, const std::set<std::string>& but_on = {});
  /// Only these.
  void give_back(const std::vector<HostDevice>& places);

  /// "host     devices  free  in use by\nworker0  2        0     front.1 (2)\n..."
  std::string table() const;

 private:
  struct Host {
    std::string name;
    std::vector<MeshKey> users;  // by device; an empty name is a free device
    bool away = false;
    bool leaving = false;
    bool takes_more() const { return !away && !leaving; }
    std::uint32_t free() const;
  };
  const Host* find(const std::string& name) const;
  Host* find(const std::string& name) { return const_cast<Host*>(std::as_const(*this).find(name)); }
  std::vector<std::string> names() const;

  std::vector<Host> hosts_;  // in the order of joining
  std::uint64_t changes_ = 0;
};

}  // namespace weft::actors

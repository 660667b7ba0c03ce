#pragma once

#include <cstdint>
#include <map>
#include <string>
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

  /// Takes one free device per rank: rank by rank over the hosts in the order of the request, each
  /// host's devices in order. All or nothing. Throws Error(kResourceExhausted) with a table of
  /// hosts when they do not suffice, Error(kNotFound) when a host has not joined; both say what to
  /// do.
  std::vector<HostDevice> take(const MeshRequest& request, const MeshKey& key);
  void give_back(const MeshKey& key);

  /// "host     devices  free  in use by\nworker0  2        0     front.1 (2)\n..."
  std::string table() const;

 private:
  struct Host {
    std::string name;
    std::vector<MeshKey> users;  // by device; an empty name is a free device
    std::uint32_t free() const;
  };
  Host* find(const std::string& name);
  std::vector<std::string> names() const;

  std::vector<Host> hosts_;  // in the order of joining
};

}  // namespace weft::actors

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/agent/agent_messages.h"
#include "actors/call/task.h"
#include "actors/head/host_table.h"
#include "actors/head/mesh_table.h"

namespace weft::actors {

class System;

/// Starts device processes of meshes on their hosts. The head's thread only.
class MeshLauncher final {
 public:
  /// `term`: term of the head, which its requests name.
  MeshLauncher(System& system, const HostTable& hosts, std::uint64_t term)
      : system_(system), hosts_(hosts), term_(term) {}

  /// Starts the processes of `ranks`, each on its device; the hosts of one machine take turns.
  /// Throws the first error, once all launches that had begun have ended.
  task<std::vector<DeviceProcess>> launch(const MeshKey& key, const MeshTable::Mesh& mesh,
                                          const std::vector<std::uint32_t>& ranks) const;

 private:
  /// Launch requests by host.
  using Requests = std::map<std::string, LaunchRequest>;
  task<std::vector<DeviceProcess>> launch_all(Requests requests) const;

  System& system_;
  const HostTable& hosts_;
  const std::uint64_t term_;
};

}  // namespace weft::actors

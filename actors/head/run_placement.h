#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/head/cluster_messages.h"

namespace weft::actors {

/// Input of place_run(): one mesh of the run.
struct MeshToPlace {
  std::string name;
  std::int64_t size = 0;
  /// Planned hosts, in the order in which ranks fill them. Empty: all hosts.
  std::vector<std::string> hosts;
  MeshKey key = {};  ///< Epoch 0: the mesh is not started.
  /// Present or last device of each rank. Empty if the mesh is not started.
  std::vector<HostDevice> places = {};
  std::set<std::uint32_t> broken = {};  ///< Ranks of a started mesh that need another process.
};

/// Hosts that a rank may go to, besides those of its mesh.
enum class HostScope : std::uint8_t {
  /// Spares, if the mesh's own hosts have too few devices. For the start of a run.
  kOwnHosts,
  /// Spares, then hosts of other meshes of the run. For use after a death.
  kWholeRun,
};

/// Result of place_run().
struct RunPlacement {
  /// Devices by mesh and rank. Ranks that are not broken keep theirs.
  std::vector<std::vector<HostDevice>> places;
  std::vector<std::size_t> lacking;  ///< Number of ranks without a device, by mesh.
  /// Name of a mesh that lacks devices, with a table of the hosts; the caller must wait then.
  /// Empty: every rank has a device.
  std::string problem;
};

/// Finds devices for the ranks of all meshes together. If any placement has a device for each rank,
/// this one does. Ranks prefer their last host, then other hosts of their mesh, then spares, then
/// hosts of other meshes. Pure.
///
///   meshes a [w0], b [w1]; w0 is lost, b has no device yet: problem, although w1 is free for a
///   meshes a [w0], b [w1]; a has moved to w1, b has no device yet, w0 is back: b goes to w0
///
/// The device of a broken rank counts as free for its own mesh, whose renewal ends the old process.
RunPlacement place_run(const std::vector<HostDevices>& hosts,
                       const std::vector<MeshToPlace>& meshes,
                       const std::vector<std::string>& spares, HostScope reach);

}  // namespace weft::actors

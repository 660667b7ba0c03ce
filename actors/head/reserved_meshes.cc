// Reservations of the meshes of a run: one device for each rank, on the hosts of its mesh.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "actors/head/resource_allocator.h"
#include "core/base/error.h"

namespace weft::actors {

RunPlacement ResourceAllocator::place_meshes(const ReservationRequest& request, std::size_t count,
                                             Room room) const {
  std::vector<HostDevices> devices = hosts();
  if (room == Room::kAll)
    for (std::size_t i = 0; i < devices.size(); ++i) {
      devices[i].accepts_processes = !hosts_[i].leaving;
      std::ranges::fill(devices[i].users, MeshKey());
    }
  std::vector<MeshToPlace> meshes;
  for (std::size_t m = 0; m < count; ++m) {
    const WantedMesh& mesh = request.meshes[m];
    meshes.push_back({.name = mesh.name, .size = mesh.shape.size(), .hosts = mesh.hosts});
  }
  return place_run(devices, meshes, request.spares, HostScope::kOwnHosts);
}

std::optional<std::vector<BundlePlace>> ResourceAllocator::find_bundles_of_meshes(
    const ReservationRequest& request) const {
  const RunPlacement placement = place_meshes(request, request.meshes.size(), Room::kFree);
  if (!placement.problem.empty()) return std::nullopt;
  std::vector<BundlePlace> bundles;
  for (const std::vector<HostDevice>& mesh : placement.places)
    for (const HostDevice& place : mesh) bundles.push_back({place.host, {place.device}});
  return bundles;
}

std::size_t ResourceAllocator::num_fitting_of_meshes(const ReservationRequest& request) const {
  std::size_t fitting = request.bundles.size();
  for (const std::size_t ranks : place_meshes(request, request.meshes.size(), Room::kFree).lacking)
    fitting -= ranks;
  return fitting;
}

std::set<std::string> ResourceAllocator::candidates_of_meshes(
    const ReservationRequest& request) const {
  std::set<std::string> names(request.spares.begin(), request.spares.end());
  for (const WantedMesh& mesh : request.meshes) {
    names.insert(mesh.hosts.begin(), mesh.hosts.end());
    if (!mesh.hosts.empty()) continue;
    for (const HostState& host : hosts_) names.insert(host.name);
  }
  std::erase_if(names, [&](const std::string& name) {
    const HostState* const host = find(name);
    return host == nullptr || host->leaving || host->users.empty();
  });
  return names;
}

void ResourceAllocator::fail_no_room_for_meshes(const ReservationRequest& request) const {
  // Meshes that have room without other users lack it now.
  const bool fits = could_fit(request);
  std::size_t lacking = 0;  // The first mesh without room beside those before it.
  while (lacking + 1 < request.meshes.size() &&
         place_meshes(request, lacking + 1, fits ? Room::kFree : Room::kAll).problem.empty())
    ++lacking;
  const WantedMesh& mesh = request.meshes[lacking];
  MeshRequest one;
  one.mesh = mesh.name;
  one.shape = mesh.shape;
  one.hosts = mesh.hosts;
  const auto num_ranks = static_cast<std::size_t>(mesh.shape.size());
  Wanted wanted = wanted_of(one, num_ranks);
  if (lacking > 0) wanted.description = "beside the other meshes of its run, " + wanted.description;
  (void)hosts_for(wanted, Room::kAll);  // a host that has not joined is the better reason
  const RunPlacement now = place_meshes(request, lacking + 1, Room::kFree);
  fail_no_room(wanted, num_ranks - now.lacking[lacking]);
}

}  // namespace weft::actors

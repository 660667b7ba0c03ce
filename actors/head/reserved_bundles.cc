// Reservations: bundles of resources that wait for their meshes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "actors/head/resource_allocator.h"
#include "core/base/error.h"

namespace weft::actors {

ResourceAllocator::Wanted ResourceAllocator::wanted_of(const ReservationRequest& request) {
  const std::string what = fmt::format("reservation '{}'", request.name);
  Wanted wanted{what, what, {}, request.hosts, request.labels, request.strategy};
  bool with_devices = false;
  for (const Resources& bundle : request.bundles) {
    wanted.needs.push_back(amounts_of(what, bundle));
    with_devices = with_devices || bundle.devices > 0;
  }
  if (wanted.strategy == PlacementStrategy::kDefault)
    wanted.strategy = with_devices ? PlacementStrategy::kPack : PlacementStrategy::kSpread;
  return wanted;
}

std::optional<std::vector<BundlePlace>> ResourceAllocator::find_bundles(
    const ReservationRequest& request) const {
  if (!request.meshes.empty()) return find_bundles_of_meshes(request);
  const Wanted wanted = wanted_of(request);
  const Found found = search(wanted, Room::kFree);
  if (found.placed.verdict != PlacedBundles::Verdict::kPlaced) return std::nullopt;
  std::vector<BundlePlace> places;
  std::set<std::pair<std::string, std::uint32_t>> taken;
  for (std::size_t bundle = 0; bundle < wanted.needs.size(); ++bundle) {
    const HostState& host = *found.hosts[found.placed.hosts[bundle]];
    BundlePlace& place = places.emplace_back(BundlePlace{host.name});
    for (std::int64_t i = 0; i < amount_of(wanted.needs[bundle], kDevicesName); ++i)
      place.devices.push_back(take_device(host, taken));
  }
  return places;
}

bool ResourceAllocator::could_fit(const ReservationRequest& request) const {
  if (!request.meshes.empty())
    return place_meshes(request, request.meshes.size(), Room::kAll).problem.empty();
  return search(wanted_of(request), Room::kAll).placed.verdict !=
         PlacedBundles::Verdict::kImpossible;
}

std::size_t ResourceAllocator::num_fitting(const ReservationRequest& request) const {
  if (!request.meshes.empty()) return num_fitting_of_meshes(request);
  return search(wanted_of(request), Room::kFree).placed.num_placed;
}

Error ResourceAllocator::shortage(const ReservationRequest& request) const {
  try {
    if (!request.meshes.empty()) fail_no_room_for_meshes(request);
    const Wanted wanted = wanted_of(request);
    fail_no_room(wanted, search(wanted, Room::kFree).placed.num_placed);
  } catch (const Error& error) {
    return error;
  }
}

std::set<std::string> ResourceAllocator::candidates(const ReservationRequest& request) const {
  if (!request.meshes.empty()) return candidates_of_meshes(request);
  const Wanted wanted = wanted_of(request);
  std::set<std::string> names;
  for (const HostState* host : hosts_for(wanted, Room::kAll))
    if (std::ranges::any_of(wanted.needs,
                            [&](const Amounts& needs) { return fits(needs, host->total); }))
      names.insert(host->name);
  return names;
}

void ResourceAllocator::take_bundle(const MeshKey& key, Bundle& bundle, const BundlePlace& place) {
  HostState* const host = find(place.host);
  if (host == nullptr) return;
  bundle.host = place.host;
  for (const std::uint32_t device : place.devices) {
    if (device >= host->reservations.size()) continue;
    host->reservations[device] = key;
    bundle.devices.push_back(device);
  }
  Amounts amounts = bundle.total;
  amounts.erase(kDevicesName);
  add(host->used, amounts);
  ++host->num_uses;
  ++num_taken_;
}

void ResourceAllocator::free_bundle(Bundle& bundle) {
  HostState* const host = find(bundle.host);
  if (host == nullptr) return;
  for (const std::uint32_t device : bundle.devices) host->reservations[device] = MeshKey();
  Amounts amounts = bundle.total;
  amounts.erase(kDevicesName);
  subtract(host->used, amounts);
  --host->num_uses;
  bundle.host.clear();
  bundle.devices.clear();
  ++changes_;
}

void ResourceAllocator::reserve(const MeshKey& key, const ReservationRequest& request,
                                const std::vector<BundlePlace>& places) {
  std::vector<Bundle>& bundles = reservations_[key];
  const Wanted wanted = wanted_of(request);
  for (std::size_t i = 0; i < wanted.needs.size(); ++i) {
    bundles.push_back({wanted.needs[i], request.meshes.empty()});
    if (i < places.size()) take_bundle(key, bundles.back(), places[i]);
  }
}

void ResourceAllocator::release(const MeshKey& key) {
  const auto found = reservations_.find(key);
  if (found == reservations_.end()) return;
  std::vector<Bundle> bundles = std::move(found->second);
  reservations_.erase(found);
  for (Bundle& bundle : bundles) free_bundle(bundle);
  // What meshes still have counts on its own from now on.
  for (auto& [mesh, claims] : claims_)
    for (auto& [rank, claim] : claims) {
      if (claim.reservation != key) continue;
      claim.reservation = {};
      HostState* const host = find(claim.place.host);
      if (host == nullptr) continue;
      add(host->used, claim.amounts);
      ++host->num_uses;
    }
  ++changes_;
}

bool ResourceAllocator::replace_lost(const MeshKey& key, const ReservationRequest& request) {
  const auto found = reservations_.find(key);
  if (found == reservations_.end()) return false;
  std::vector<Bundle>& bundles = found->second;
  const std::vector<std::set<std::string>> users = bundle_users(key);
  for (std::size_t i = 0; i < bundles.size(); ++i)
    if (const HostState* const host = find(bundles[i].host);
        host != nullptr && host->leaving && bundles[i].moves && users[i].empty())
      free_bundle(bundles[i]);
  if (std::ranges::none_of(
          bundles, [](const Bundle& bundle) { return bundle.host.empty() && bundle.moves; }))
    return false;
  const Wanted wanted = wanted_of(request);
  std::vector<std::string> kept;
  for (const Bundle& bundle : bundles) kept.push_back(bundle.host);
  std::vector<const HostState*> hosts =
      present_hosts(wanted.hosts.empty() ? names() : wanted.hosts, wanted.labels);
  const Found placed = search_on(wanted, std::move(hosts), Room::kFree, kept, {});
  if (placed.placed.verdict != PlacedBundles::Verdict::kPlaced) return false;
  std::set<std::pair<std::string, std::uint32_t>> taken;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    if (!bundles[i].host.empty()) continue;
    const HostState& host = *placed.hosts[placed.placed.hosts[i]];
    BundlePlace place{host.name};
    for (std::int64_t n = 0; n < amount_of(bundles[i].total, kDevicesName); ++n)
      place.devices.push_back(take_device(host, taken));
    take_bundle(key, bundles[i], place);
  }
  return true;
}

std::vector<BundlePlace> ResourceAllocator::bundle_places(const MeshKey& key) const {
  std::vector<BundlePlace> places;
  const auto found = reservations_.find(key);
  if (found == reservations_.end()) return places;
  for (const Bundle& bundle : found->second) places.push_back({bundle.host, bundle.devices});
  return places;
}

std::vector<std::set<std::string>> ResourceAllocator::bundle_users(const MeshKey& key) const {
  std::vector<std::set<std::string>> users;
  const auto found = reservations_.find(key);
  if (found == reservations_.end()) return users;
  users.resize(found->second.size());
  for (const auto& [mesh, claims] : claims_)
    for (const auto& [rank, claim] : claims)
      if (claim.reservation == key && claim.bundle < users.size())
        users[claim.bundle].insert(mesh.name);
  return users;
}

ResourceAllocator::Bundle* ResourceAllocator::bundle_of(const Claim& claim) {
  if (claim.reservation.name.empty()) return nullptr;
  const auto found = reservations_.find(claim.reservation);
  if (found == reservations_.end() || claim.bundle >= found->second.size()) return nullptr;
  Bundle& bundle = found->second[claim.bundle];
  return bundle.host == claim.place.host ? &bundle : nullptr;
}

std::vector<HostDevice> ResourceAllocator::find_in_bundles(
    const MeshRequest& request, const std::vector<std::uint32_t>& ranks) const {
  const auto found = reservations_.find(request.reservation);
  const std::string& name = request.reservation.name;
  if (found == reservations_.end())
    throw_error(ErrorCode::kFailedPrecondition,
                "mesh '{}' needs reservation '{}', which was released; keep a reservation as long "
                "as its meshes",
                request.mesh, name);
  const std::vector<Bundle>& bundles = found->second;
  const std::size_t first = request.first_bundle;
  if (first > bundles.size() || std::cmp_greater(request.shape.size(), bundles.size() - first))
    throw_error(ErrorCode::kFailedPrecondition,
                "mesh '{}' has {} ranks, and reservation '{}' has {} bundles{}, one for each rank; "
                "spawn a smaller mesh, or reserve more bundles",
                request.mesh, request.shape.size(), name, bundles.size(),
                first == 0 ? "" : fmt::format(" of which it skips {}", first));
  const Amounts needs = amounts_of(fmt::format("mesh '{}'", request.mesh), request.needs);
  std::vector<HostDevice> places;
  for (const std::uint32_t rank : ranks)
    places.push_back(find_in_bundle(request, first + rank, bundles[first + rank], needs));
  return places;
}

HostDevice ResourceAllocator::find_in_bundle(const MeshRequest& request, std::size_t index,
                                             const Bundle& bundle, const Amounts& needs) const {
  const std::string& name = request.reservation.name;
  if (!fits(needs, bundle.total))
    throw_error(ErrorCode::kFailedPrecondition,
                "mesh '{}' needs {} for each rank, and bundle {} of reservation '{}' has {}; "
                "reserve larger bundles, or ask for less",
                request.mesh, to_string(needs), index, name, to_string(bundle.total));
  const HostState* const host = find(bundle.host);
  if (host == nullptr || !host->accepts_processes())
    throw_error(
        host == nullptr && !bundle.moves ? ErrorCode::kFailedPrecondition : ErrorCode::kUnavailable,
        "mesh '{}': bundle {} of reservation '{}' {}", request.mesh, index, name,
        host == nullptr && !bundle.moves ? "has lost its host"
        : host == nullptr ? "has lost its host, and no other has room for it at the moment"
                          : fmt::format("is on host '{}', which {}", host->name,
                                        host->away ? "does not answer the head at the moment"
                                                   : "is leaving the cluster"));
  std::uint32_t device = kNoDevice;
  if (amount_of(needs, kDevicesName) > 0)
    for (const std::uint32_t each : bundle.devices)
      if (host->users[each].name.empty()) device = std::min(device, each);
  Amounts rest = bundle.total;
  subtract(rest, bundle.used);
  Amounts others = needs;
  others.erase(kDevicesName);
  if (!fits(others, rest) || (amount_of(needs, kDevicesName) > 0 && device == kNoDevice)) {
    const std::set<std::string> users = bundle_users(request.reservation).at(index);
    throw_error(ErrorCode::kResourceExhausted,
                "mesh '{}' needs {} for each rank, and of bundle {} of reservation '{}' with {} "
                "meshes have a part: {}; stop one of them first",
                request.mesh, to_string(needs), index, name, to_string(bundle.total),
                fmt::join(users, ", "));
  }
  return {bundle.host, device};
}

}  // namespace weft::actors

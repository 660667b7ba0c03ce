#include "actors/head/resource_allocator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "core/base/error.h"

namespace weft::actors {
namespace {

/// Limit of the ranks of a mesh, which keeps a request from filling the head's memory.
constexpr std::int64_t kMostRanks = 100'000;

using TakenDevices = std::set<std::pair<std::string, std::uint32_t>>;

bool has_labels(const std::map<std::string, std::string>& labels,
                const std::map<std::string, std::string>& wanted) {
  return std::ranges::all_of(wanted, [&](const auto& label) {
    const auto found = labels.find(label.first);
    return found != labels.end() && found->second == label.second;
  });
}

std::string label_text(const std::map<std::string, std::string>& labels) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : labels) parts.push_back(fmt::format("{}={}", key, value));
  return fmt::format("{}", fmt::join(parts, ", "));
}

PlacementStrategy resolved(PlacementStrategy strategy, bool with_devices) {
  if (strategy != PlacementStrategy::kDefault) return strategy;
  return with_devices ? PlacementStrategy::kPack : PlacementStrategy::kSpread;
}

/// Returns " on one host", " on 4 hosts", or "".
std::string strategy_text(PlacementStrategy strategy, std::size_t num_bundles) {
  if (strategy == PlacementStrategy::kStrictPack) return " on one host";
  if (strategy == PlacementStrategy::kStrictSpread) return fmt::format(" on {} hosts", num_bundles);
  return "";
}

/// Returns the options of `weft join` that a host needs for one bundle.
std::string join_options(const Amounts& needs, const std::map<std::string, std::string>& labels) {
  std::string options;
  for (const auto& [name, amount] : needs) {
    const std::string text = amount_text(name, amount);
    if (name == kDevicesName) options += " --devices " + text;
    else if (name == kCpusName) options += " --cpus " + text;
    else if (name == kMemoryName) options += fmt::format(" --memory {}B", amount);
    else options += fmt::format(" --resource {}={}", name, text);
  }
  for (const auto& [key, value] : labels) options += fmt::format(" --label {}={}", key, value);
  return options;
}

/// Returns the largest amount of each resource.
Amounts largest_of(const std::vector<Amounts>& needs) {
  Amounts largest;
  for (const Amounts& each : needs)
    for (const auto& [name, amount] : each) largest[name] = std::max(largest[name], amount);
  return largest;
}

}  // namespace

std::int64_t ResourceAllocator::HostState::free(const std::string& resource) const {
  if (resource != kDevicesName)
    return std::max<std::int64_t>(amount_of(total, resource) - amount_of(used, resource), 0);
  std::int64_t count = 0;
  for (std::size_t device = 0; device < users.size(); ++device) count += is_free(device) ? 1 : 0;
  return count;
}

double ResourceAllocator::HostState::load() const {
  double load = 0;
  for (const auto& [resource, amount] : total)
    load = std::max(load, 1 - static_cast<double>(free(resource)) / static_cast<double>(amount));
  return load;
}

const ResourceAllocator::HostState* ResourceAllocator::find(const std::string& name) const {
  const auto it = std::ranges::find(hosts_, name, &HostState::name);
  return it == hosts_.end() ? nullptr : &*it;
}

std::vector<std::string> ResourceAllocator::names() const {
  std::vector<std::string> names;
  for (const HostState& host : hosts_) names.push_back(host.name);
  return names;
}

void ResourceAllocator::add_host(const std::string& name, Amounts total,
                                 std::map<std::string, std::string> labels) {
  if (find(name) != nullptr)
    throw_error(ErrorCode::kAlreadyExists,
                "a host named '{}' has joined already; give this one another name with --name",
                name);
  const auto devices = static_cast<std::size_t>(amount_of(total, kDevicesName));
  std::erase_if(total, [](const auto& of) { return of.second == 0; });
  hosts_.push_back({name, std::move(total), std::move(labels), std::vector<MeshKey>(devices),
                    std::vector<MeshKey>(devices)});
  ++changes_;
  ++host_changes_;
}

void ResourceAllocator::remove_host(const std::string& name) {
  std::erase_if(hosts_, [&](const HostState& host) { return host.name == name; });
  for (auto& [key, claims] : claims_)
    std::erase_if(claims, [&](const auto& of) { return of.second.place.host == name; });
  std::erase_if(claims_, [](const auto& of) { return of.second.empty(); });
  for (auto& [key, bundles] : reservations_)
    for (Bundle& bundle : bundles)
      if (bundle.host == name) bundle = {std::move(bundle.total), bundle.moves};
  ++changes_;
  ++host_changes_;
}

void ResourceAllocator::set_away(const std::string& name, bool away) {
  HostState* const host = find(name);
  if (host == nullptr || host->away == away) return;
  host->away = away;
  ++changes_;
}

void ResourceAllocator::set_leaving(const std::string& name) {
  if (HostState* host = find(name)) host->leaving = true;
  ++changes_;
  ++host_changes_;
}

ResourceAllocator::Wanted ResourceAllocator::wanted_of(const MeshRequest& request,
                                                       std::size_t num_ranks) {
  const std::string what = fmt::format("mesh '{}'", request.mesh);
  return {what,
          what + " " + to_string(request.shape),
          std::vector<Amounts>(num_ranks, amounts_of(what, request.needs)),
          request.hosts,
          request.labels,
          resolved(request.strategy, request.needs.devices > 0)};
}

std::vector<const ResourceAllocator::HostState*> ResourceAllocator::hosts_for(const Wanted& wanted,
                                                                              Room room) const {
  const std::vector<std::string>& listed = wanted.hosts;
  std::vector<const HostState*> usable;
  const auto add_host = [&](const HostState& host) {
    const bool usable_now = room == Room::kAll ? !host.leaving : host.accepts_processes();
    if (usable_now && has_labels(host.labels, wanted.labels)) usable.push_back(&host);
  };
  if (listed.empty())
    for (const HostState& host : hosts_) add_host(host);
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const std::string& name = listed[i];
    if (std::find(listed.begin(), listed.begin() + i, name) != listed.begin() + i)
      throw_error(ErrorCode::kInvalidArgument, "{} lists host '{}' twice", wanted.what, name);
    const HostState* const host = find(name);
    if (host == nullptr)
      throw_error(ErrorCode::kNotFound,
                  "{} needs host '{}', which has not joined; joined: {}. Start it with: weft join "
                  "HOST:PORT --name {}",
                  wanted.what, name,
                  hosts_.empty() ? "none" : fmt::format("{}", fmt::join(names(), ", ")), name);
    if (room == Room::kFree && !host->accepts_processes())
      throw_error(ErrorCode::kUnavailable, "{} needs host '{}', which {}", wanted.what, name,
                  host->away ? "does not answer the head at the moment"
                             : "is leaving the cluster; use other hosts");
    add_host(*host);
  }
  return usable;
}

std::vector<const ResourceAllocator::HostState*> ResourceAllocator::present_hosts(
    const std::vector<std::string>& listed,
    const std::map<std::string, std::string>& labels) const {
  std::vector<const HostState*> present;
  for (const std::string& name : listed)
    if (const HostState* const host = find(name);
        host != nullptr && host->accepts_processes() && has_labels(host->labels, labels))
      present.push_back(host);
  return present;
}

ResourceAllocator::Found ResourceAllocator::search(const Wanted& wanted, Room room) const {
  return search_on(wanted, hosts_for(wanted, room), room, {}, {});
}

ResourceAllocator::Found ResourceAllocator::search_on(const Wanted& wanted,
                                                      std::vector<const HostState*> hosts,
                                                      Room room,
                                                      const std::vector<std::string>& kept,
                                                      const std::vector<std::string>& last) const {
  std::vector<std::string> resources;
  for (const auto& [name, amount] : largest_of(wanted.needs)) resources.push_back(name);
  BundlesToPlace problem;
  problem.strategy = wanted.strategy;
  for (const Amounts& needs : wanted.needs) {
    problem.needs.emplace_back();
    for (const std::string& name : resources)
      problem.needs.back().push_back(amount_of(needs, name));
  }
  // Bundles may be kept on other hosts, which take nothing new.
  const std::size_t num_usable = hosts.size();
  for (const std::string& name : kept)
    if (const HostState* const host = find(name);
        host != nullptr && std::ranges::find(hosts, host) == hosts.end())
      hosts.push_back(host);
  for (const HostState* host : hosts) {
    BundlesToPlace::Room& free = problem.hosts.emplace_back();
    free.may_take = problem.hosts.size() <= num_usable;
    for (const std::string& name : resources)
      free.free.push_back(room == Room::kAll ? amount_of(host->total, name) : host->free(name));
    free.load = host->load();
    free.num_uses = host->num_uses;
  }
  const auto indices = [&](const std::vector<std::string>& of) {
    std::vector<std::optional<std::size_t>> result(of.size());
    for (std::size_t i = 0; i < of.size(); ++i)
      if (const auto host = std::ranges::find(hosts, of[i], &HostState::name); host != hosts.end())
        result[i] = host - hosts.begin();
    return result;
  };
  problem.kept = indices(kept);
  // A bundle that stays on a host that was removed needs no room.
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].empty() || problem.kept[i]) continue;
    problem.kept[i] = problem.hosts.size();
    problem.hosts.push_back({std::vector<std::int64_t>(resources.size(), 0), 0, 0, false});
  }
  problem.last = indices(last);
  return {place_bundles(problem), std::move(hosts)};
}

std::uint32_t ResourceAllocator::take_device(const HostState& host, TakenDevices& taken) {
  for (std::uint32_t device = 0; device < host.users.size(); ++device)
    if (host.is_free(device) && taken.emplace(host.name, device).second) return device;
  return kNoDevice;
}

std::vector<HostDevice> ResourceAllocator::find_places(const MeshRequest& request) const {
  if (!request.places.empty()) {
    if (std::ssize(request.places) != request.shape.size())
      throw_error(ErrorCode::kInvalidArgument, "mesh '{}' of {} ranks names {} places",
                  request.mesh, request.shape.size(), request.places.size());
    check_free(request, request.places);
    return request.places;
  }
  if (request.shape.size() > kMostRanks)
    throw_error(ErrorCode::kInvalidArgument,
                "mesh '{}' has {} ranks; the head places at most {}: spawn several meshes",
                request.mesh, request.shape.size(), kMostRanks);
  const auto num_ranks = static_cast<std::size_t>(request.shape.size());
  std::vector<std::uint32_t> ranks(num_ranks);
  std::iota(ranks.begin(), ranks.end(), 0u);
  if (!request.reservation.name.empty()) return find_in_bundles(request, ranks);
  const Wanted wanted = wanted_of(request, num_ranks);
  const Found found = search(wanted, Room::kFree);
  if (found.placed.verdict != PlacedBundles::Verdict::kPlaced)
    fail_no_room(wanted, found.placed.num_placed);
  std::vector<HostDevice> places;
  TakenDevices taken;
  for (const std::size_t index : found.placed.hosts) {
    const HostState& host = *found.hosts[index];
    places.push_back({host.name, request.needs.devices > 0 ? take_device(host, taken) : kNoDevice});
  }
  return places;
}

std::vector<HostDevice> ResourceAllocator::find_replacements(
    const MeshRequest& request, const std::vector<HostDevice>& places,
    const std::vector<std::uint32_t>& missing) const {
  if (!request.reservation.name.empty()) return find_in_bundles(request, missing);
  const Wanted wanted = wanted_of(request, places.size());
  std::vector<std::string> kept(places.size()), last(places.size());
  for (std::size_t rank = 0; rank < places.size(); ++rank) kept[rank] = places[rank].host;
  for (const std::uint32_t rank : missing) last[rank] = std::exchange(kept[rank], "");
  std::vector<std::string> listed = request.hosts.empty() ? names() : request.hosts;
  // The last host of a rank may not be in `request.hosts`.
  for (const std::string& name : last)
    if (!name.empty() && std::ranges::find(listed, name) == listed.end()) listed.push_back(name);
  std::vector<const HostState*> hosts = present_hosts(listed, request.labels);
  const Found found = search_on(wanted, std::move(hosts), Room::kFree, kept, last);
  if (found.placed.verdict != PlacedBundles::Verdict::kPlaced) {
    const std::size_t others = places.size() - missing.size();
    const std::size_t room = found.placed.num_placed - std::min(others, found.placed.num_placed);
    throw_error(ErrorCode::kResourceExhausted,
                "mesh '{}' has lost {} rank{}{}, and there is room for {}:\n{}", request.mesh,
                missing.size(), missing.size() == 1 ? "" : "s",
                strategy_text(wanted.strategy, places.size()),
                room == 0 ? "none" : fmt::format("only {}", room),
                table(wanted.needs.front(), request.labels));
  }
  std::vector<HostDevice> result;
  TakenDevices taken;
  for (const std::uint32_t rank : missing) {
    const HostState& host = *found.hosts[found.placed.hosts[rank]];
    result.push_back({host.name, request.needs.devices > 0 ? take_device(host, taken) : kNoDevice});
  }
  return result;
}

bool ResourceAllocator::could_fit(const MeshRequest& request) const {
  if (!request.places.empty() || !request.reservation.name.empty()) return true;
  if (request.shape.size() > kMostRanks) return false;
  try {
    const auto num_ranks = static_cast<std::size_t>(request.shape.size());
    return search(wanted_of(request, num_ranks), Room::kAll).placed.verdict !=
           PlacedBundles::Verdict::kImpossible;
  } catch (const Error&) {
    return true;  // A host has not joined, and may join.
  }
}

const Amounts& ResourceAllocator::unmet_needs(const Wanted& wanted) const {
  const std::vector<const HostState*> hosts = hosts_for(wanted, Room::kAll);
  for (const Amounts& needs : wanted.needs)
    if (std::ranges::none_of(hosts, [&](const auto* host) { return fits(needs, host->total); }))
      return needs;
  return wanted.needs.front();
}

void ResourceAllocator::fail_no_room(const Wanted& wanted, std::size_t num_placed) const {
  const std::vector<std::string> listed = wanted.hosts.empty() ? names() : wanted.hosts;
  const std::string where =
      listed.empty() ? "a cluster without hosts" : fmt::format("{}", fmt::join(listed, ", "));
  const Amounts largest = largest_of(wanted.needs);
  const bool is_strict = wanted.strategy == PlacementStrategy::kStrictPack ||
                         wanted.strategy == PlacementStrategy::kStrictSpread;
  const bool one_device_each = largest == Amounts{{kDevicesName, 1}};
  if (one_device_each && !is_strict && wanted.labels.empty())
    throw_error(
        ErrorCode::kResourceExhausted,
        "{} ({} devices) does not fit on {}, where {} {} free:\n{}Give it more hosts, a smaller "
        "shape, or end what uses the devices.",
        wanted.description, wanted.needs.size(), where, num_placed, num_placed == 1 ? "is" : "are",
        table());
  const bool impossible =
      search(wanted, Room::kAll).placed.verdict == PlacedBundles::Verdict::kImpossible;
  const std::string with_labels =
      wanted.labels.empty() ? ""
                            : fmt::format("{} with label {}", largest.empty() ? "" : " of hosts",
                                          label_text(wanted.labels));
  throw_error(ErrorCode::kResourceExhausted, "{} needs {}{}{}, and {} {}:\n{}{}",
              wanted.description, largest.empty() ? "hosts" : to_string(wanted.needs),
              strategy_text(wanted.strategy, wanted.needs.size()), with_labels, where,
              impossible ? std::string("cannot hold that even without other users")
                         : fmt::format("{} room for {} of {}", listed.size() == 1 ? "has" : "have",
                                       num_placed, wanted.needs.size()),
              table(largest, wanted.labels),
              impossible
                  ? fmt::format("Ask for less, or join more hosts, such as: weft join HOST:PORT "
                                "--name NAME{}",
                                join_options(unmet_needs(wanted), wanted.labels))
                  : "Give it more hosts, ask for less, or end what uses the resources.");
}

void ResourceAllocator::check_free(const MeshRequest& request,
                                   const std::vector<HostDevice>& places) const {
  const Amounts needs = amounts_of(fmt::format("mesh '{}'", request.mesh), request.needs);
  std::map<std::string, Amounts> sums;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const HostDevice& place = places[i];
    const HostState* host = find(place.host);
    const bool takes_device = place.device != kNoDevice;
    const std::span before(places.data(), i);
    const bool twice = takes_device && std::ranges::find(before, place) != before.end();
    const bool device_is_free =
        host != nullptr && host->accepts_processes() && !twice &&
        (!takes_device || (place.device < host->users.size() && host->is_free(place.device)));
    if (!device_is_free)
      throw_error(ErrorCode::kResourceExhausted, "mesh '{}': {} of host {} is not free:\n{}",
                  request.mesh,
                  takes_device ? fmt::format("device {}", place.device) : std::string("a place"),
                  place.host, table());
    Amounts& sum = sums[place.host];
    add(sum, needs);
    for (const auto& [name, amount] : sum)
      if (name != kDevicesName && amount > host->free(name))
        throw_error(ErrorCode::kResourceExhausted,
                    "mesh '{}': host {} has no room for {} of its ranks, {} each:\n{}",
                    request.mesh, place.host,
                    std::ranges::count(places, place.host, &HostDevice::host), to_string(needs),
                    table(needs, {}));
  }
}

std::vector<HostDevices> ResourceAllocator::hosts() const {
  std::vector<HostDevices> hosts;
  for (const HostState& host : hosts_) {
    hosts.push_back({host.name, host.accepts_processes(), host.users});
    for (std::size_t device = 0; device < host.users.size(); ++device)
      if (host.users[device].name.empty()) hosts.back().users[device] = host.reservations[device];
  }
  return hosts;
}

Resources ResourceAllocator::total_of(const std::string& name) const {
  const HostState* const host = find(name);
  return host == nullptr ? Resources() : resources_of(host->total);
}

Resources ResourceAllocator::used_on(const std::string& name) const {
  const HostState* const host = find(name);
  if (host == nullptr) return {};
  Resources used = resources_of(host->used);
  used.devices =
      static_cast<std::uint32_t>(amount_of(host->total, kDevicesName) - host->free(kDevicesName));
  return used;
}

void ResourceAllocator::assign(const MeshKey& key, std::uint32_t rank, const HostDevice& place,
                               const MeshRequest& request) {
  HostState* const host = find(place.host);
  if (host == nullptr) return;
  if (const auto had = claims_.find(key); had != claims_.end() && had->second.contains(rank))
    free(key, rank);
  Claim claim{place, amounts_of(fmt::format("mesh '{}'", request.mesh), request.needs)};
  claim.amounts.erase(kDevicesName);
  claim.reservation = request.reservation;
  claim.bundle = std::size_t{request.first_bundle} + rank;
  if (place.device < host->users.size()) host->users[place.device] = key;
  if (Bundle* const bundle = bundle_of(claim)) {
    add(bundle->used, claim.amounts);
  } else {
    claim.reservation = {};
    add(host->used, claim.amounts);
    ++host->num_uses;
  }
  claims_[key].emplace(rank, std::move(claim));
  ++num_taken_;
}

void ResourceAllocator::move(const MeshKey& from, const MeshKey& to, std::uint32_t rank) {
  const auto had = claims_.find(from);
  if (had == claims_.end()) return;
  auto claim = had->second.extract(rank);
  if (claim.empty()) return;
  if (had->second.empty()) claims_.erase(had);
  const HostDevice& place = claim.mapped().place;
  if (HostState* const host = find(place.host);
      host != nullptr && place.device < host->users.size())
    host->users[place.device] = to;
  claims_[to].insert(std::move(claim));
}

void ResourceAllocator::give_back(const MeshKey& key, const Claim& claim) {
  HostState* const host = find(claim.place.host);
  if (host == nullptr) return;
  // The device may have another user: a process that the agent runs, and no mesh has.
  if (claim.place.device < host->users.size() && host->users[claim.place.device] == key)
    host->users[claim.place.device] = MeshKey();
  if (Bundle* const bundle = bundle_of(claim)) return subtract(bundle->used, claim.amounts);
  subtract(host->used, claim.amounts);
  --host->num_uses;
}

void ResourceAllocator::free(const MeshKey& key, std::uint32_t rank) {
  const auto had = claims_.find(key);
  if (had == claims_.end()) return;
  const auto claim = had->second.extract(rank);
  if (claim.empty()) return;
  if (had->second.empty()) claims_.erase(had);
  give_back(key, claim.mapped());
  ++changes_;
}

void ResourceAllocator::free(const MeshKey& key, const std::set<std::string>& but_on) {
  ++changes_;
  const auto had = claims_.find(key);
  if (had == claims_.end()) return;
  std::erase_if(had->second, [&](const auto& of) {
    if (but_on.contains(of.second.place.host)) return false;
    give_back(key, of.second);
    return true;
  });
  if (had->second.empty()) claims_.erase(had);
}

std::string ResourceAllocator::use_text(const HostState& host) const {
  if (host.away) return "does not answer";
  if (host.leaving) return "is leaving";
  std::map<MeshKey, int> users, reserved;
  for (std::size_t device = 0; device < host.users.size(); ++device) {
    if (!host.users[device].name.empty()) ++users[host.users[device]];
    else if (!host.reservations[device].name.empty()) ++reserved[host.reservations[device]];
  }
  for (const auto& [key, claims] : claims_)
    for (const auto& [rank, claim] : claims)
      if (claim.place.host == host.name && claim.place.device == kNoDevice) ++users[key];
  for (const auto& [key, bundles] : reservations_)
    for (const Bundle& bundle : bundles)
      if (bundle.host == host.name && bundle.devices.empty()) ++reserved[key];
  std::vector<std::string> parts;
  for (const auto& [user, count] : users)
    parts.push_back(fmt::format("mesh {} ({})", user.name, count));
  for (const auto& [user, count] : reserved)
    parts.push_back(fmt::format("reservation {} ({})", user.name, count));
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string ResourceAllocator::table(const Amounts& columns,
                                     const std::map<std::string, std::string>& labels) const {
  std::vector<std::vector<std::string>> rows = {{"host"}};
  for (const auto& [name, amount] : columns) {
    if (name == kDevicesName) rows[0].insert(rows[0].end(), {"devices", "free"});
    else rows[0].push_back(name + " free");
  }
  if (!labels.empty()) rows[0].push_back("labels");
  rows[0].push_back("in use by");
  for (const HostState& host : hosts_) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(host.name);
    for (const auto& [name, amount] : columns) {
      const std::int64_t total = amount_of(host.total, name);
      if (name == kDevicesName)
        row.insert(row.end(), {fmt::format("{}", total), fmt::format("{}", host.free(name))});
      else
        row.push_back(
            fmt::format("{} of {}", amount_text(name, host.free(name)), amount_text(name, total)));
    }
    if (!labels.empty()) {
      std::map<std::string, std::string> own;
      for (const auto& [key, value] : labels)
        if (const auto found = host.labels.find(key); found != host.labels.end())
          own.insert(*found);
      row.push_back(own.empty() ? "-" : label_text(own));
    }
    row.push_back(use_text(host));
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t column = 0; column + 1 < row.size(); ++column) {
      std::size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[column].size());
      text += fmt::format("  {:<{}}", row[column], width);
    }
    text += fmt::format("  {}\n", row.back());
  }
  return text;
}

}  // namespace weft::actors

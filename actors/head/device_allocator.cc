#include "actors/head/device_allocator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>

#include "core/base/error.h"

namespace weft::actors {

std::uint32_t DeviceAllocator::HostAllocation::free() const {
  return static_cast<std::uint32_t>(std::count_if(
      users.begin(), users.end(), [](const MeshKey& user) { return user.name.empty(); }));
}

const DeviceAllocator::HostAllocation* DeviceAllocator::find(const std::string& name) const {
  const auto it = std::find_if(hosts_.begin(), hosts_.end(),
                               [&](const HostAllocation& host) { return host.name == name; });
  return it == hosts_.end() ? nullptr : &*it;
}

std::vector<std::string> DeviceAllocator::names() const {
  std::vector<std::string> names;
  for (const HostAllocation& host : hosts_) names.push_back(host.name);
  return names;
}

void DeviceAllocator::add_host(const std::string& name, std::uint32_t devices) {
  if (find(name) != nullptr)
    throw_error(ErrorCode::kAlreadyExists,
                "a host named '{}' has joined already; give this one another name with --name",
                name);
  hosts_.push_back({name, std::vector<MeshKey>(devices)});
  ++changes_;
}

void DeviceAllocator::remove_host(const std::string& name) {
  std::erase_if(hosts_, [&](const HostAllocation& host) { return host.name == name; });
  ++changes_;
}

void DeviceAllocator::set_away(const std::string& name, bool away) {
  HostAllocation* const host = find(name);
  if (host == nullptr || host->away == away) return;
  host->away = away;
  ++changes_;
}

void DeviceAllocator::set_leaving(const std::string& name) {
  if (HostAllocation* host = find(name)) host->leaving = true;
  ++changes_;
}

std::vector<const DeviceAllocator::HostAllocation*> DeviceAllocator::usable_hosts(
    const std::string& mesh, const std::vector<std::string>& wanted) const {
  std::vector<const HostAllocation*> usable;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string& name = wanted[i];
    if (std::find(wanted.begin(), wanted.begin() + i, name) != wanted.begin() + i)
      throw_error(ErrorCode::kInvalidArgument, "mesh '{}' lists host '{}' twice", mesh, name);
    const HostAllocation* host = find(name);
    if (host == nullptr)
      throw_error(
          ErrorCode::kNotFound,
          "mesh '{}' needs host '{}', which has not joined; joined: {}. Start it with: weft join "
          "HOST:PORT --name {}",
          mesh, name, hosts_.empty() ? "none" : fmt::format("{}", fmt::join(names(), ", ")), name);
    if (!host->accepts_processes())
      throw_error(ErrorCode::kUnavailable, "mesh '{}' needs host '{}', which {}", mesh, name,
                  host->away ? "does not answer the head at the moment"
                             : "is leaving the cluster; use other hosts");
    usable.push_back(host);
  }
  return usable;
}

std::vector<const DeviceAllocator::HostAllocation*> DeviceAllocator::usable_hosts() const {
  std::vector<const HostAllocation*> usable;
  for (const HostAllocation& host : hosts_)
    if (host.accepts_processes()) usable.push_back(&host);
  return usable;
}

std::vector<HostDevice> DeviceAllocator::find_devices(const MeshRequest& request) const {
  if (!request.places.empty()) {
    if (std::ssize(request.places) != request.shape.size())
      throw_error(ErrorCode::kInvalidArgument, "mesh '{}' of {} ranks names {} places",
                  request.mesh, request.shape.size(), request.places.size());
    check_free(request.mesh, request.places);
    return request.places;
  }
  const std::size_t needed = request.shape.size();
  std::vector<HostDevice> places;
  for (const HostAllocation* host :
       request.hosts.empty() ? usable_hosts() : usable_hosts(request.mesh, request.hosts))
    for (std::uint32_t device = 0; device < host->users.size() && places.size() < needed; ++device)
      if (host->users[device].name.empty()) places.push_back({host->name, device});
  if (places.size() < needed) {
    const std::vector<std::string> wanted = request.hosts.empty() ? names() : request.hosts;
    throw_error(
        ErrorCode::kResourceExhausted,
        "mesh '{}' {} ({} devices) does not fit on {}, where {} {} free:\n{}Give it more hosts, a "
        "smaller shape, or end what uses the devices.",
        request.mesh, to_string(request.shape), needed,
        wanted.empty() ? "a cluster without hosts" : fmt::format("{}", fmt::join(wanted, ", ")),
        places.size(), places.size() == 1 ? "is" : "are", table());
  }
  return places;
}

std::vector<HostDevice> DeviceAllocator::find_replacements(
    const MeshRequest& request, const std::vector<HostDevice>& lost) const {
  const std::vector<std::string> others = request.hosts.empty() ? names() : request.hosts;
  std::vector<HostDevice> found;
  const auto free_on = [&](const std::string& name) -> std::optional<HostDevice> {
    const HostAllocation* host = find(name);
    if (host == nullptr || !host->accepts_processes()) return std::nullopt;
    for (std::uint32_t device = 0; device < host->users.size(); ++device) {
      const HostDevice place{name, device};
      if (host->users[device].name.empty() && std::ranges::find(found, place) == found.end())
        return place;
    }
    return std::nullopt;
  };
  for (const HostDevice& place : lost) {
    std::optional<HostDevice> other = free_on(place.host);
    for (std::size_t i = 0; i < others.size() && !other; ++i) other = free_on(others[i]);
    if (!other)
      throw_error(ErrorCode::kResourceExhausted,
                  "mesh '{}' has lost {} device{}, and of {} {} free:\n{}", request.mesh,
                  lost.size(), lost.size() == 1 ? "" : "s", fmt::join(others, ", "),
                  found.empty() ? "none is" : fmt::format("only {} are", found.size()), table());
    found.push_back(*other);
  }
  return found;
}

void DeviceAllocator::check_free(const std::string& mesh,
                                 const std::vector<HostDevice>& places) const {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const HostAllocation* host = find(places[i].host);
    const std::span before(places.data(), i);
    const bool twice = std::ranges::find(before, places[i]) != before.end();
    if (host == nullptr || !host->accepts_processes() || places[i].device >= host->users.size() ||
        twice || !host->users[places[i].device].name.empty())
      throw_error(ErrorCode::kResourceExhausted, "mesh '{}': device {} of host {} is not free:\n{}",
                  mesh, places[i].device, places[i].host, table());
  }
}

std::vector<HostDevices> DeviceAllocator::hosts() const {
  std::vector<HostDevices> hosts;
  for (const HostAllocation& host : hosts_)
    hosts.push_back({host.name, host.accepts_processes(), host.users});
  return hosts;
}

void DeviceAllocator::free(const std::vector<HostDevice>& places) {
  assign(places, MeshKey());
  ++changes_;
}

void DeviceAllocator::assign(const std::vector<HostDevice>& places, const MeshKey& key) {
  for (const HostDevice& place : places)
    if (HostAllocation* host = find(place.host);
        host != nullptr && place.device < host->users.size())
      host->users[place.device] = key;
}

void DeviceAllocator::free(const MeshKey& key, const std::set<std::string>& but_on) {
  for (HostAllocation& host : hosts_) {
    if (but_on.contains(host.name)) continue;
    for (MeshKey& user : host.users)
      if (user == key) user = MeshKey();
  }
  ++changes_;
}

std::string DeviceAllocator::table() const {
  std::size_t width = 4;
  for (const HostAllocation& host : hosts_) width = std::max(width, host.name.size());
  std::string text = fmt::format("  {:<{}}  devices  free  in use by\n", "host", width);
  for (const HostAllocation& host : hosts_) {
    std::map<MeshKey, int> users;
    for (const MeshKey& user : host.users)
      if (!user.name.empty()) ++users[user];
    std::vector<std::string> parts;
    for (const auto& [user, count] : users)
      parts.push_back(fmt::format("mesh {} ({})", user.name, count));
    text += fmt::format("  {:<{}}  {:<7}  {:<4}  {}\n", host.name, width, host.users.size(),
                        host.free(),
                        host.away       ? "does not answer"
                        : host.leaving  ? "is leaving"
                        : parts.empty() ? "-"
                                        : fmt::format("{}", fmt::join(parts, ", ")));
  }
  return text;
}

}  // namespace weft::actors

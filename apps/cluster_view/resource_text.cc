#include "apps/cluster_view/resource_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/units.h"

namespace weft::apps {
namespace {

double used_of(const actors::HostStatus& host, const std::string& name) {
  const auto used = host.used.custom.find(name);
  return used == host.used.custom.end() ? 0 : used->second;
}

bool has_resources(const actors::HostStatus& host) {
  return !host.offer.capacity.labels.empty() || !host.total.custom.empty() || host.used.cpus > 0 ||
         host.used.memory > 0;
}

/// Returns "licence 1 of 2, zone=a".
std::string own_text(const actors::HostStatus& host) {
  std::vector<std::string> parts;
  for (const auto& [name, total] : host.total.custom)
    parts.push_back(fmt::format("{} {} of {}", name, used_of(host, name), total));
  for (const auto& [key, value] : host.offer.capacity.labels)
    parts.push_back(fmt::format("{}={}", key, value));
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ", "));
}

/// Returns "a, b": each host once.
std::string hosts_of(const actors::ReservationStatus& reservation) {
  std::vector<std::string> hosts;
  for (const actors::BundlePlace& place : reservation.places)
    if (!place.host.empty() && std::ranges::find(hosts, place.host) == hosts.end())
      hosts.push_back(place.host);
  return hosts.empty() ? "no host" : fmt::format("{}", fmt::join(hosts, ", "));
}

}  // namespace

std::string resources_text(const actors::ClusterStatus& status) {
  if (std::ranges::none_of(status.hosts, has_resources)) return "";
  std::vector<std::vector<std::string>> rows = {
      {"host", "cpus used", "memory used", "other resources, labels"}};
  for (const actors::HostStatus& host : status.hosts)
    rows.push_back(
        {host.offer.name, fmt::format("{} of {}", host.used.cpus, host.total.cpus),
         fmt::format("{} of {}", format_bytes(host.used.memory), format_bytes(host.total.memory)),
         own_text(host)});
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t column = 0; column + 1 < row.size(); ++column) {
      std::size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[column].size());
      text += fmt::format("{:<{}}  ", row[column], width);
    }
    text += row.back() + "\n";
  }
  return text;
}

std::string waiting_text(const actors::ReservationStatus& reservation) {
  return fmt::format("waiting: reservation {} of {}: needs {}: {}", reservation.name,
                     reservation.owner, reservation.needs, reservation.problem);
}

std::string reservations_text(const actors::ClusterStatus& status) {
  std::string text;
  for (const actors::ReservationStatus& each : status.reservations) {
    if (each.waiting) {
      text += fmt::format("  {}\n", waiting_text(each));
      continue;
    }
    std::set<std::string> users;
    for (const std::string& user : each.bundle_users)
      if (!user.empty()) users.insert(user);
    text += fmt::format(
        "  {} of {}: {} on {}; {}{}\n", each.name, each.owner, each.needs, hosts_of(each),
        users.empty() ? "unused" : fmt::format("in use by {}", fmt::join(users, ", ")),
        each.problem.empty() ? "" : "; " + each.problem);
  }
  return text;
}

nlohmann::ordered_json reservation_json(const actors::ReservationStatus& reservation) {
  auto bundles = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < reservation.places.size(); ++i)
    bundles.push_back(
        {{"host", reservation.places[i].host},
         {"devices", reservation.places[i].devices},
         {"users", i < reservation.bundle_users.size() ? reservation.bundle_users[i] : ""}});
  return {{"name", reservation.name},       {"owner", reservation.owner},
          {"needs", reservation.needs},     {"state", reservation.waiting ? "waiting" : "granted"},
          {"problem", reservation.problem}, {"bundles", bundles}};
}

nlohmann::ordered_json resources_json(const actors::HostStatus& host) {
  nlohmann::ordered_json own = nlohmann::ordered_json::object();
  for (const auto& [name, total] : host.total.custom)
    own[name] = {{"total", total}, {"used", used_of(host, name)}};
  nlohmann::ordered_json labels = nlohmann::ordered_json::object();
  for (const auto& [key, value] : host.offer.capacity.labels) labels[key] = value;
  return {{"cpus", {{"total", host.total.cpus}, {"used", host.used.cpus}}},
          {"memory", {{"total", host.total.memory}, {"used", host.used.memory}}},
          {"resources", own},
          {"labels", labels}};
}

}  // namespace weft::apps

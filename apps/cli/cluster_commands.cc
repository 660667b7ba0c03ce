// weft status, weft stop, weft token rotate.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "actors/access/token.h"
#include "actors/access/token_rotation.h"
#include "apps/cli/commands.h"
#include "apps/cluster_view/head_client.h"
#include "apps/cluster_view/resource_text.h"
#include "apps/cluster_view/run_text.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

using actors::ClusterStatus;

constexpr std::size_t kManyHosts = 32;
constexpr std::size_t kManyDevices = 16;

std::string state_of(const actors::HostStatus& host) {
  if (host.unreachable_seconds) return "away";
  if (host.leaving) return "leaving";
  return host.suspect ? "suspect" : "alive";
}

/// Returns the process that uses a device: "front[data=0] pid 4121, cpu (avx2, 1 thread)". Empty if
/// the host has left.
std::string user_of(const ClusterStatus& status, const actors::HostDevice& place) {
  for (const auto& host : status.hosts)
    if (host.offer.name == place.host && place.device < host.device_users.size())
      return host.device_users[place.device];
  return "";
}

/// Returns the index of a device; null for a process without one.
nlohmann::ordered_json device_json(const actors::HostDevice& place) {
  return place.device == actors::kNoDevice ? nlohmann::ordered_json()
                                           : nlohmann::ordered_json(place.device);
}

nlohmann::ordered_json mesh_json(const ClusterStatus& status, const actors::MeshStatus& mesh) {
  auto places = nlohmann::ordered_json::array();
  for (const auto& place : mesh.places)
    places.push_back(
        {{"host", place.host}, {"device", device_json(place)}, {"user", user_of(status, place)}});
  return {{"name", mesh.key.name}, {"epoch", mesh.key.epoch}, {"shape", mesh.shape},
          {"owner", mesh.owner},   {"state", mesh.state},     {"places", places}};
}

nlohmann::ordered_json to_json(const ClusterStatus& status) {
  nlohmann::ordered_json json = {{"cluster", status.cluster},
                                 {"term", status.term},
                                 {"address", status.address},
                                 {"pid", status.pid},
                                 {"up_seconds", status.up_seconds}};
  json["hosts"] = nlohmann::ordered_json::array();
  for (const auto& host : status.hosts) {
    json["hosts"].push_back({{"name", host.offer.name},
                             {"devices", host.offer.devices},
                             {"device_users", host.device_users},
                             {"other_processes", host.other_processes},
                             {"agent_pid", host.offer.pid},
                             {"address", host.address},
                             {"machine", host.offer.machine},
                             {"instruction_set", host.offer.instruction_set},
                             {"logs", host.offer.log_directory},
                             {"joined_seconds", host.joined_seconds},
                             {"state", state_of(host)}});
    json["hosts"].back().update(resources_json(host));
  }
  json["meshes"] = nlohmann::ordered_json::array();
  for (const auto& mesh : status.meshes) json["meshes"].push_back(mesh_json(status, mesh));
  json["runs"] = nlohmann::ordered_json::array();
  for (const actors::RunStatus& run : status.runs) {
    nlohmann::ordered_json one = {{"name", run.name}, {"pid", run.pid}, {"progress", nullptr}};
    if (run.unreachable_seconds) one["away_seconds"] = *run.unreachable_seconds;
    if (run.has_progress) {
      one["progress"] = progress_json(run.progress);
      one["progress"]["told_seconds_ago"] = run.progress_age_seconds;
    }
    one["meshes"] = nlohmann::ordered_json::array();
    for (const auto& mesh : status.meshes)
      if (mesh.owner == run.name) one["meshes"].push_back(mesh_json(status, mesh));
    json["runs"].push_back(std::move(one));
  }
  json["reservations"] = nlohmann::ordered_json::array();
  for (const auto& reservation : status.reservations)
    json["reservations"].push_back(reservation_json(reservation));
  json["events"] = nlohmann::ordered_json::array();
  for (const auto& event : status.events)
    json["events"].push_back({{"unix_ms", event.unix_ms}, {"text", event.text}});
  return json;
}

/// Returns a host's line without its name and its agent's pid.
auto host_row(const actors::HostStatus& host) {
  const auto free = std::count(host.device_users.begin(), host.device_users.end(), "");
  std::string state;
  if (host.unreachable_seconds)
    state = fmt::format("  no contact for {}", format_seconds(*host.unreachable_seconds));
  else if (host.suspect) state = "  suspect: no heartbeat for some seconds";
  return std::tuple(host.offer.devices, free, host.offer.machine, host.offer.instruction_set,
                    state);
}

/// Returns a line per host. If there are more than kManyHosts, equal lines in a row are merged.
std::string hosts_text(const ClusterStatus& status) {
  if (status.hosts.empty())
    return fmt::format("none has joined; add one: weft join {} --name worker0 --devices 2\n",
                       status.address);
  const bool folds = status.hosts.size() > kManyHosts;
  struct Line {
    std::string name, agent;
    decltype(host_row(status.hosts[0])) looks;
    std::vector<std::string> processes;  // those without devices
  };
  std::vector<Line> lines;
  std::size_t width = 4;
  for (std::size_t first = 0; first < status.hosts.size();) {
    const auto looks = host_row(status.hosts[first]);
    std::size_t end = first + 1;
    const auto& processes = status.hosts[first].other_processes;
    while (folds && processes.empty() && end < status.hosts.size() &&
           status.hosts[end].other_processes.empty() && host_row(status.hosts[end]) == looks)
      ++end;
    const auto& offer = status.hosts[first].offer;
    lines.push_back(end == first + 1
                        ? Line{offer.name, std::to_string(offer.pid), looks, processes}
                        : Line{fmt::format("{} .. {} ({} hosts)", offer.name,
                                           status.hosts[end - 1].offer.name, end - first),
                               "",
                               looks,
                               {}});
    width = std::max(width, lines.back().name.size());
    first = end;
  }
  std::string text = fmt::format("{:<{}}  devices  free  agent    machine\n", "host", width);
  for (const Line& line : lines) {
    const auto& [devices, free, machine, instruction_set, state] = line.looks;
    text += fmt::format("{:<{}}  {:<7}  {:<4}  {:<7}  {} ({}){}\n", line.name, width, devices, free,
                        line.agent, machine, instruction_set, state);
    for (std::size_t i = 0; i < line.processes.size(); ++i) {
      if (i == kManyDevices && line.processes.size() > kManyDevices + 1) {
        text += fmt::format("  and {} more processes without devices\n", line.processes.size() - i);
        break;
      }
      text += fmt::format("  {}\n", line.processes[i]);
    }
  }
  return text;
}

/// Lists the hosts of a mesh without devices, with the number of its actors on each.
std::string hosts_of_actors(const actors::MeshStatus& mesh) {
  std::map<std::string, std::size_t> actors;
  for (const actors::HostDevice& place : mesh.places) ++actors[place.host];
  std::string text;
  for (const auto& [host, count] : actors)
    text += fmt::format("      {}: {} actor{}{}\n", host, count, count == 1 ? "" : "s",
                        mesh.is_shared ? ""
                        : count == 1   ? " in a process of its own"
                                       : " in processes of their own");
  return text;
}

/// Lists the meshes of a run with their devices.
std::string meshes_text(const ClusterStatus& status, const std::string& owner) {
  std::string text;
  for (const auto& mesh : status.meshes) {
    if (mesh.owner != owner) continue;
    text += fmt::format("    mesh {} {} (epoch {}), {}\n", mesh.key.name, mesh.shape,
                        mesh.key.epoch, mesh.state);
    if (!mesh.places.empty() && mesh.places.front().device == actors::kNoDevice) {
      text += hosts_of_actors(mesh);
      continue;
    }
    for (std::size_t rank = 0; rank < mesh.places.size(); ++rank) {
      if (rank == kManyDevices && mesh.places.size() > kManyDevices + 1) {
        text += fmt::format("      and {} more; weft status --json lists them\n",
                            mesh.places.size() - rank);
        break;
      }
      const actors::HostDevice& place = mesh.places[rank];
      const std::string user = user_of(status, place);
      text += fmt::format("      {} device {}: {}\n", place.host, place.device,
                          user.empty() ? "its host has left" : user);
    }
  }
  return text;
}

std::string describe(const ClusterStatus& status) {
  std::string text;
  const auto line = [&text]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    text += fmt::format(format, std::forward<Args>(args)...);
  };
  line("cluster {} at {}, head pid {}, term {}, up {}\n\n", status.cluster.substr(0, 12),
       status.address, status.pid, status.term, format_seconds(status.up_seconds));
  text += hosts_text(status);
  if (const std::string resources = resources_text(status); !resources.empty())
    line("\n{}", resources);
  line("\nruns\n");
  for (const actors::RunStatus& run : status.runs) {
    line("  {} (pid {}): {}{}\n", run.name, run.pid,
         run.unreachable_seconds ? fmt::format("no contact with its driver for {}; ",
                                               format_seconds(*run.unreachable_seconds))
                                 : "",
         run.has_progress ? progress_text(run.progress, run.progress_age_seconds) : "no step yet");
    text += meshes_text(status, run.name);
  }
  if (status.runs.empty()) line("  none\n");
  if (std::ranges::any_of(status.meshes, [](const auto& mesh) { return mesh.owner.empty(); })) {
    line("  ended; its processes are stopping:\n");
    text += meshes_text(status, "");
  }
  if (const std::string reservations = reservations_text(status); !reservations.empty())
    line("\nreservations\n{}", reservations);
  line("\nlast events\n");
  for (const auto& event : status.events)
    line("  {}  {}\n", time_text(event.unix_ms).substr(11), first_line(event.text));
  return text;
}

}  // namespace

int run_status(const ConnectOptions& options) {
  HeadClient observer(options, "weft status");
  const ClusterStatus status = observer.head().call<&actors::Head::status>().get();
  if (options.json) say(stdout, "{}\n", to_json(status).dump(2));
  else {
    say(stdout, "{}", wrapped_for_terminal(STDOUT_FILENO, describe(status), 4));
  }
  return 0;
}

int run_stop(const ConnectOptions& options) {
  HeadClient observer(options, "weft stop");
  try {
    const Nanoseconds patience = options.now ? Nanoseconds::zero() : actors::Head::kRunsEndWithin;
    observer.head()
        .within(patience + std::chrono::seconds(10))
        .call<&actors::Head::stop>(std::string("weft stop"), options.now)
        .get();
  } catch (const Error& error) {
    // The head may exit before its answer arrives.
    if (error.code() != ErrorCode::kPeerDied && error.code() != ErrorCode::kCancelled) throw;
  }
  say(stdout, "the cluster at {} has stopped\n", options.head);
  return 0;
}

int run_token_rotate(const ConnectOptions& options) {
  if (!options.state.empty()) {
    const auto members = actors::rotate_token_offline(options.state);
    say(stdout,
        "the token in {} is a new one\nThe head accepts the old token from the {} process{} that "
        "it knows when it starts, and sends them the new one. All others need a copy.\n",
        actors::token_file_in(options.state).string(), members, members == 1 ? "" : "es");
    return 0;
  }
  HeadClient observer(options, "weft token rotate");
  const actors::TokenRotation rotated = observer.head().call<&actors::Head::rotate_token>().get();
  say(stdout,
      "the cluster at {} has a new token, in {} on the head's machine\nMembers of the cluster have "
      "received it. New hosts and commands on other machines need a copy.\n",
      options.head, rotated.file);
  for (const std::string& name : rotated.not_notified)
    say(stdout,
        "{} is connected without TLS and did not receive the token: restart it with the new token "
        "if its connection closes.\n",
        name);
  return 0;
}

}  // namespace weft::apps

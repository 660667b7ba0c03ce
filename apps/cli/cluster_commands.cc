// weft status, weft stop.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "actors/head/head.h"
#include "actors/launch/token.h"
#include "actors/system/system.h"
#include "apps/cli/commands.h"
#include "core/base/error.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

using actors::ClusterStatus;

/// A connection to a head, for one question.
class Observer {
 public:
  Observer(const ClusterOptions& cluster, const std::string& name) : system_(options(cluster, name)) {
    try {
      head_ = system_.connect(Address::parse(cluster.head), std::chrono::seconds(1));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      throw_error(ErrorCode::kUnavailable,
                  "no head answers at {}; give its address with --head HOST:PORT or in WEFT_HEAD, or start one: weft head",
                  cluster.head);
    }
  }
  actors::ActorRef<actors::Head> head() { return system_.named<actors::Head>(head_, "head"); }

 private:
  static actors::SystemOptions options(const ClusterOptions& cluster, const std::string& name) {
    actors::SystemOptions options;
    options.name = name;
    options.token = actors::find_token(Address::parse(cluster.head), cluster.token_file);
    return options;
  }
  actors::System system_;
  actors::ProcessRef head_;
};

nlohmann::ordered_json to_json(const ClusterStatus& status) {
  nlohmann::ordered_json json = {{"cluster", status.cluster},
                                 {"term", status.term},
                                 {"address", status.address},
                                 {"pid", status.pid},
                                 {"up_seconds", status.up_seconds}};
  json["hosts"] = nlohmann::ordered_json::array();
  for (const auto& host : status.hosts)
    json["hosts"].push_back({{"name", host.offer.name},
                             {"devices", host.offer.devices},
                             {"device_users", host.device_users},
                             {"agent_pid", host.offer.pid},
                             {"address", host.address},
                             {"machine", host.offer.machine},
                             {"instruction_set", host.offer.instruction_set},
                             {"logs", host.offer.log_directory},
                             {"joined_seconds", host.joined_seconds}});
  json["meshes"] = nlohmann::ordered_json::array();
  for (const auto& mesh : status.meshes) {
    auto places = nlohmann::ordered_json::array();
    for (const auto& place : mesh.places) places.push_back({{"host", place.host}, {"device", place.device}});
    json["meshes"].push_back({{"name", mesh.key.name},
                              {"epoch", mesh.key.epoch},
                              {"shape", mesh.shape},
                              {"owner", mesh.owner},
                              {"state", mesh.state},
                              {"places", places}});
  }
  json["events"] = nlohmann::ordered_json::array();
  for (const auto& event : status.events) json["events"].push_back({{"unix_ms", event.unix_ms}, {"text", event.text}});
  return json;
}

void print(const ClusterStatus& status) {
  fmt::print("cluster {} at {}, head pid {}, term {}, up {}\n\n", status.cluster.substr(0, 12), status.address, status.pid,
             status.term, format_seconds(status.up_seconds));
  std::size_t width = 4;
  for (const auto& host : status.hosts) width = std::max(width, host.offer.name.size());
  fmt::print("{:<{}}  devices  free  agent    machine\n", "host", width);
  for (const auto& host : status.hosts) {
    const auto free = std::count(host.device_users.begin(), host.device_users.end(), "");
    fmt::print("{:<{}}  {:<7}  {:<4}  {:<7}  {} ({})\n", host.offer.name, width, host.offer.devices, free, host.offer.pid,
               host.offer.machine, host.offer.instruction_set);
    for (std::size_t device = 0; device < host.device_users.size(); ++device)
      if (!host.device_users[device].empty())
        fmt::print("{:<{}}    device {}: {}\n", "", width, device, host.device_users[device]);
  }
  if (status.hosts.empty()) fmt::print("none has joined; add one: weft join {} --name worker0 --devices 2\n", status.address);
  fmt::print("\nmeshes\n");
  for (const auto& mesh : status.meshes)
    fmt::print("  {} {} (epoch {}), {}, owned by {}\n", mesh.key.name, mesh.shape, mesh.key.epoch, mesh.state, mesh.owner);
  if (status.meshes.empty()) fmt::print("  none\n");
  fmt::print("\nlast events\n");
  for (const auto& event : status.events)
    fmt::print("  {:%H:%M:%S}  {}\n", fmt::localtime(static_cast<std::time_t>(event.unix_ms / 1000)), event.text);
}

}  // namespace

int run_status(const ClusterOptions& options) {
  Observer observer(options, "weft status");
  const ClusterStatus status = observer.head().call<&actors::Head::status>().get();
  if (options.json) fmt::print("{}\n", to_json(status).dump(2));
  else print(status);
  return 0;
}

int run_stop(const ClusterOptions& options) {
  Observer observer(options, "weft stop");
  try {
    observer.head().within(std::chrono::seconds(10)).call<&actors::Head::stop>(std::string("weft stop")).get();
  } catch (const Error& error) {
    // The head may be gone before its answer is here.
    if (error.code() != ErrorCode::kPeerDied && error.code() != ErrorCode::kCancelled) throw;
  }
  fmt::print("the cluster at {} has stopped\n", options.head);
  return 0;
}

}  // namespace weft::apps

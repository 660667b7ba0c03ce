// weft status, weft stop, weft token rotate.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "actors/head/head.h"
#include "actors/launch/protection.h"
#include "actors/launch/token.h"
#include "actors/system/system.h"
#include "apps/cli/commands.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

using actors::ClusterStatus;

/// A connection to a head, for one question.
class Observer {
 public:
  Observer(const ConnectOptions& cluster, const std::string& name)
      : system_(options(cluster, name)) {
    try {
      head_ = system_.connect(actors::Address::parse(cluster.head), std::chrono::seconds(1));
    } catch (const Error& error) {
      // Who accepts and says nothing, and a name that is none, are told as they are.
      if (error.code() != ErrorCode::kUnavailable || !error.message().starts_with("cannot connect"))
        throw;
      throw_error(ErrorCode::kUnavailable,
                  "no head answers at {}; give its address with --head HOST:PORT or in WEFT_HEAD, "
                  "or start one: weft head",
                  cluster.head);
    }
  }
  actors::ActorRef<actors::Head> head() { return system_.named<actors::Head>(head_, "head"); }

 private:
  static actors::SystemOptions options(const ConnectOptions& cluster, const std::string& name) {
    actors::SystemOptions options;
    options.name = name;
    options.log = Log::standard_error(LogLevel::kWarning);
    const auto head = actors::Address::parse(cluster.head);
    options.token = actors::find_token(head, cluster.token_file);
    actors::find_protection(head, cluster.token_file, cluster.certificate, cluster.insecure)
        .apply(head, options);
    return options;
  }
  actors::System system_;
  actors::ProcessRef head_;
};

std::string state_of(const actors::HostStatus& host) {
  if (host.away_seconds) return "away";
  return host.suspect ? "suspect" : "alive";
}

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
                             {"joined_seconds", host.joined_seconds},
                             {"state", state_of(host)}});
  json["meshes"] = nlohmann::ordered_json::array();
  for (const auto& mesh : status.meshes) {
    auto places = nlohmann::ordered_json::array();
    for (const auto& place : mesh.places)
      places.push_back({{"host", place.host}, {"device", place.device}});
    json["meshes"].push_back({{"name", mesh.key.name},
                              {"epoch", mesh.key.epoch},
                              {"shape", mesh.shape},
                              {"owner", mesh.owner},
                              {"state", mesh.state},
                              {"places", places}});
  }
  json["runs"] = nlohmann::ordered_json::array();
  for (const actors::RunStatus& run : status.runs) {
    nlohmann::ordered_json one = {{"name", run.name}, {"pid", run.pid}, {"progress", nullptr}};
    const actors::RunProgress& p = run.progress;
    if (run.has_progress)
      one["progress"] = {{"step", p.step},
                         {"total_steps", p.total_steps},
                         {"loss", std::isfinite(p.loss) ? nlohmann::ordered_json(p.loss)
                                                        : nlohmann::ordered_json()},
                         {p.unit + "_per_second", p.units_per_second},
                         {"seconds_left", p.seconds_left},
                         {"told_seconds_ago", run.told_seconds}};
    json["runs"].push_back(std::move(one));
  }
  json["events"] = nlohmann::ordered_json::array();
  for (const auto& event : status.events)
    json["events"].push_back({{"unix_ms", event.unix_ms}, {"text", event.text}});
  return json;
}

/// "step 350/700, loss 3.830, 29,151 tokens/s, 24.0 s left".
std::string progress_text(const actors::RunStatus& run) {
  if (!run.has_progress) return "no step yet";
  const actors::RunProgress& p = run.progress;
  std::string text = fmt::format("step {}/{}, loss {:.3f}, {:.0f} {}/s", p.step, p.total_steps,
                                 p.loss, p.units_per_second, p.unit);
  text += p.step < p.total_steps ? fmt::format(", {} left", format_seconds(p.seconds_left))
                                 : ", the last one is done";
  // A step may be long; but then this is old news.
  if (run.told_seconds > 10)
    text += fmt::format(" (told {} ago)", format_seconds(run.told_seconds));
  return text;
}

std::string describe(const ClusterStatus& status) {
  std::string text;
  const auto line = [&text]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    text += fmt::format(format, std::forward<Args>(args)...);
  };
  line("cluster {} at {}, head pid {}, term {}, up {}\n\n", status.cluster.substr(0, 12),
       status.address, status.pid, status.term, format_seconds(status.up_seconds));
  std::size_t width = 4;
  for (const auto& host : status.hosts) width = std::max(width, host.offer.name.size());
  line("{:<{}}  devices  free  agent    machine\n", "host", width);
  for (const auto& host : status.hosts) {
    const auto free = std::count(host.device_users.begin(), host.device_users.end(), "");
    const std::string state = host.away_seconds ? fmt::format("  does not answer since {}",
                                                              format_seconds(*host.away_seconds))
                              : host.suspect    ? "  suspect: it has been silent for some seconds"
                                                : "";
    line("{:<{}}  {:<7}  {:<4}  {:<7}  {} ({}){}\n", host.offer.name, width, host.offer.devices,
         free, host.offer.pid, host.offer.machine, host.offer.instruction_set, state);
    for (std::size_t device = 0; device < host.device_users.size(); ++device)
      if (!host.device_users[device].empty())
        line("{:<{}}    device {}: {}\n", "", width, device, host.device_users[device]);
  }
  if (status.hosts.empty())
    line("none has joined; add one: weft join {} --name worker0 --devices 2\n", status.address);
  line("\nruns\n");
  const auto add_meshes_of = [&](const std::string& owner) {
    for (const auto& mesh : status.meshes)
      if (mesh.owner == owner)
        line("    mesh {} {} (epoch {}), {}\n", mesh.key.name, mesh.shape, mesh.key.epoch,
             mesh.state);
  };
  for (const actors::RunStatus& run : status.runs) {
    line("  {} (pid {}): {}\n", run.name, run.pid, progress_text(run));
    add_meshes_of(run.name);
  }
  if (status.runs.empty()) line("  none\n");
  if (std::ranges::any_of(status.meshes, [](const auto& mesh) { return mesh.owner.empty(); })) {
    line("  ended, and its processes are ending:\n");
    add_meshes_of("");
  }
  line("\nlast events\n");
  for (const auto& event : status.events)
    line("  {:%H:%M:%S}  {}\n", fmt::localtime(event.unix_ms / 1000), event.text);
  return text;
}

}  // namespace

int run_status(const ConnectOptions& options) {
  Observer observer(options, "weft status");
  const ClusterStatus status = observer.head().call<&actors::Head::status>().get();
  if (options.json) say(stdout, "{}\n", to_json(status).dump(2));
  else {
    say(stdout, "{}", fitted_to(STDOUT_FILENO, describe(status), 4));
  }
  return 0;
}

int run_stop(const ConnectOptions& options) {
  Observer observer(options, "weft stop");
  try {
    observer.head()
        .within(std::chrono::seconds(10))
        .call<&actors::Head::stop>(std::string("weft stop"))
        .get();
  } catch (const Error& error) {
    // The head may be gone before its answer is here.
    if (error.code() != ErrorCode::kPeerDied && error.code() != ErrorCode::kCancelled) throw;
  }
  say(stdout, "the cluster at {} has stopped\n", options.head);
  return 0;
}

int run_token_rotate(const ConnectOptions& options) {
  if (!options.state.empty()) {
    const auto members = actors::rotate_token_offline(options.state);
    say(stdout,
        "the token in {} is a new one\nThe head takes the former one from the {} process{} that "
        "it knows when it starts, and gives them the new one. Everybody else needs a copy.\n",
        actors::token_file_in(options.state).string(), members, members == 1 ? "" : "es");
    return 0;
  }
  Observer observer(options, "weft token rotate");
  const actors::RotatedToken rotated = observer.head().call<&actors::Head::rotate_token>().get();
  say(stdout,
      "the cluster at {} has a new token, in {} on the head's machine\nWho belongs to the cluster "
      "was given it. New hosts and commands elsewhere need a copy.\n",
      options.head, rotated.file);
  for (const std::string& name : rotated.not_told)
    say(stdout,
        "{} is reached without TLS, and was not given it: it stays, and once its connection is "
        "lost "
        "it has to be started anew.\n",
        name);
  return 0;
}

}  // namespace weft::apps

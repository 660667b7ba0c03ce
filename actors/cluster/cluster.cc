#include "actors/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "actors/access/user_state.h"
#include "actors/agent/agent.h"
#include "actors/agent/binary_hashes.h"
#include "actors/cluster/head_directory.h"
#include "actors/head/head.h"
#include "actors/net/network.h"
#include "actors/supervision/stopped_process.h"
#include "core/base/announced_wait.h"
#include "core/base/platform.h"

namespace weft::actors {
namespace {

/// Time limit for a head that is away: it returns within its grace, or never.
constexpr Nanoseconds kHeadReturnsWithin = std::chrono::seconds(60);
constexpr auto kEndToldWithin = std::chrono::milliseconds(500);
constexpr auto kOwnWithin = std::chrono::seconds(5);
constexpr auto kStatusWithin = std::chrono::seconds(30);
/// Time for the head and the agents to check their processes.
constexpr auto kLooksWithin = std::chrono::seconds(2);
constexpr auto kLookForChangeEvery = std::chrono::milliseconds(20);

}  // namespace

std::string own_binary_sha256() { return binary_sha256("/proc/self/exe", hash_directory()); }

Cluster::Cluster(System& system, const Address& head, ClusterOptions options)
    : system_(system),
      options_(std::move(options)),
      binary_(options_.binary.empty() ? std::filesystem::read_symlink("/proc/self/exe").string()
                                      : options_.binary),
      binary_sha256_(own_binary_sha256()),
      failures_(options_.failure_scope,
                options_.is_keeper || options_.description.restart_count > 0),
      reports_(system.options().log, options_.on_event),
      networks_(system, options_.interfaces),
      head_(system, head,
            {[this](const ProcessRef& found) { return register_driver(found); },
             [this](const std::string& how) { head_away(how); },
             [this](const JoinReply& joined, Nanoseconds away) { head_back(joined, away); },
             {},
             [this](const Error& error) { lost(error); }}),
      leaving_(head_),
      published_(system, head_),
      repeated_stops_(system),
      children_(system.self().id),
      actions_(make_actions()),
      supervisor_(*actions_) {
  const auto gone = [ear = ear_](const ProcessRef& peer, const std::string& how) {
    ear.tell([&](Cluster& cluster) { cluster.report_peer_loss(peer, how); });
  };
  system_.on_peer_eof(
      [gone](const ProcessRef& peer) { gone(peer, "disconnected: connection lost"); });
  system_.on_peer_disconnected([gone](const ProcessRef& peer, const Error& error, DisconnectCause) {
    gone(peer, "disconnected: " + error.message());
  });
  system_.on_peer_timed_out([ear = ear_](const ProcessRef& peer, Nanoseconds silence) {
    ear.tell([&](Cluster& cluster) { cluster.peer_timed_out(peer, silence); });
  });
  watcher_ = system_.host_with<HeadNotifications>("watcher", [this](Context& context) {
    return std::make_unique<HeadNotifications>(
        context,
        HeadNotifications::Events{
            [this](const MeshFailure& failure) { mesh_failed(failure); },
            [this](const std::string& reason) {
              lost(Error(ErrorCode::kCancelled, "the cluster was stopped: " + reason));
            },
            [this](bool now) { return cancelled(now); },
            [this](const std::string& host, const std::string& why) { host_leaves(host, why); },
            [this, &context](std::string name) {
              return stop_published(context, std::move(name));
            }});
  });
  system_.on_actor_exited([ear = ear_](const ActorAddress& actor) {
    ear.tell([&](Cluster& cluster) { cluster.actor_exited(actor); });
  });
  spawner_ = host_child_spawner();
  directory_ = host_directory(system_, [this] { return head_with_names(); });
  binding_.emplace(ear_, *this);
  try {
    head_.join(options_.description.restart_count > 0 ? kHeadReturnsWithin : Nanoseconds::zero());
  } catch (...) {
    // The head may have registered this owner, and call it.
    binding_.reset();
    end_own_actors();
    throw;
  }
  release_orphans_later();
}

Cluster::~Cluster() {
  const std::optional<Error> failed = failures_.first();
  // The actors of the cluster, and their children, stay for the next keeper.
  if (!options_.is_keeper && !failed) end_all_children();
  report_end(failed ? RunResult{RunState::kFailed, failed->message()} : RunResult{});
  binding_.reset();
  end_own_actors();
  // The head releases remaining meshes as soon as the connection ends.
}

void Cluster::end_own_actors() {
  (void)children_.end_all();  // ends waits for devices
  for (Future<void>& stopped : std::array{watcher_.stop(), spawner_.stop(), directory_.stop()}) {
    try {
      stopped.get();
    } catch (const Error&) {
      // The system has already stopped the actor.
    }
  }
}

JoinReply Cluster::register_driver(const ProcessRef& head) {
  OwnerRegistration offer{options_.name, process_id()};
  const RunDescription& run = options_.description;
  offer.run = run.id();
  offer.replaces_driver = run.restart_count > 0;
  offer.is_keeper = options_.is_keeper;
  offer.held_meshes = offered_meshes_ = meshes_.keys();
  offer.held_reservations = offered_reservations_ = reservations_.keys();
  // Without its reply, a keeper would not know the meshes that it takes over.
  const auto asked = system_.named<Head>(head, "head")
                         .within(options_.is_keeper ? kHeadReturnsWithin : kOwnWithin);
  JoinReply joined = asked.call<&Head::register_owner>(offer).get();
  for (const MeshProcesses& mesh : joined.adopted_meshes) meshes_.add_inherited(mesh);
  if (!options_.is_keeper) asked.tell<&Head::describe_run>(options_.description);
  published_.send_all();
  return joined;
}

std::string Cluster::cancelled(bool now) {
  if (!options_.on_cancel)
    throw_error(ErrorCode::kFailedPrecondition,
                "{} (pid {}) does not support weft cancel; on its machine run: kill -INT {}",
                options_.name, process_id(), process_id());
  return options_.on_cancel(now);
}

void Cluster::host_leaves(const std::string& host, const std::string& why) {
  const std::string text = fmt::format("host {} leaves: {}", host, why);
  reports_.warn({"host leaves", text});
  leaving_.add(host, text);
}

void Cluster::report_end(const RunResult& end) {
  if (end_reported_.exchange(true)) return;
  try {
    // A one-way call may be dropped with the connection, which ends next.
    head_.reach({}).head.within(kEndToldWithin).call<&Head::run_ended>(end).get();
  } catch (const Error&) {
    report_end_to_agents(end);
  }
}

void Cluster::report_end_to_agents(const RunResult& end) {
  std::vector<Future<void>> told;
  for (const auto& [host, agent] : meshes_.agents())
    told.push_back(system_.named<Agent>(agent, "agent")
                       .within(kEndToldWithin)
                       .call<&Agent::report_owner_exit>(end));
  for (Future<void>& answer : told) {
    try {
      answer.get();
    } catch (const Error&) {
      // The agent's device processes end when they have been unused for a while.
    }
  }
}

void Cluster::head_away(const std::string& how) {
  reports_.warn(
      {"head away",
       fmt::format("the head at {} {}; running work continues, and this process tries to reconnect",
                   to_string(head_.address()), how)});
}

task<ProcessRef> Cluster::head_with_names() {
  const ProcessRef head = head_.reach(Nanoseconds::zero()).head.address().process;
  Future<void> confirmed = published_.confirmation();
  try {
    co_await confirmed;
  } catch (const Error&) {
    // The head is asked all the same.
  }
  co_return head;
}

void Cluster::release_dropped() {
  try {
    const auto head = head_.reach({}).head;
    for (const MeshKey& key : offered_meshes_)
      if (!meshes_.contains(key)) head.tell<&Head::release>(key);
    const std::vector<MeshKey> held = reservations_.keys();
    for (const MeshKey& key : offered_reservations_)
      if (std::ranges::find(held, key) == held.end()) head.tell<&Head::release_reservation>(key);
  } catch (const Error&) {
    // The head is away again. The next registration does not list them.
  }
}

void Cluster::head_back(const JoinReply& joined, Nanoseconds away) {
  release_dropped();
  reports_.warn(
      {"head back", fmt::format("the head at {} is back after {:.1f} s (term {})",
                                to_string(head_.address()), in_seconds(away), joined.term)});
}

ClusterStatus Cluster::status() {
  return head_.ask<ClusterStatus>(kStatusWithin, [](const ActorRef<Head>& head, std::uint64_t) {
    return head.call<&Head::status>().get();
  });
}

void Cluster::wait_for_hosts(const std::vector<std::string>& names, std::size_t at_least,
                             Nanoseconds within) {
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + within;
  AnnouncedWait announced("hosts", within);
  while (true) {
    std::vector<std::string> joined;
    for (const HostStatus& host : status().hosts)
      if (!host.unreachable_seconds) joined.push_back(host.offer.name);
    std::vector<std::string> missing;
    for (const std::string& name : names)
      if (std::find(joined.begin(), joined.end(), name) == joined.end()) missing.push_back(name);
    if (missing.empty() && joined.size() >= at_least) return;
    announced.update(missing.empty()
                         ? fmt::format("{} of {} hosts to join", at_least - joined.size(), at_least)
                         : fmt::format("{} to join", fmt::join(missing, ", ")));
    if (const auto error = failures_.first()) throw Error(*error);
    if (clock.now() > give_up) {
      const std::string who =
          missing.empty()
              ? fmt::format("only {} of {} hosts have joined", joined.size(), at_least)
              : fmt::format("these hosts have not joined: {}", fmt::join(missing, ", "));
      throw_error(ErrorCode::kDeadlineExceeded,
                  "{} (joined: {}). Start each with: weft join {} --name NAME --devices N", who,
                  joined.empty() ? "none" : fmt::format("{}", fmt::join(joined, ", ")),
                  to_string(head_.address()));
    }
    failures_.wait_for_first(kAskHeadEvery);
  }
}

DeviceSnapshot Cluster::places() {
  return head_.ask<DeviceSnapshot>(kStatusWithin, [](const ActorRef<Head>& head, std::uint64_t) {
    return head.call<&Head::device_snapshot>().get();
  });
}

DataInterfaces Cluster::data_interfaces(const std::set<std::string>& hosts) {
  if (ControlNetwork::simulated() != nullptr) return {};
  DataInterfaces loopback{{}, "lo"};
  bool is_local = options_.interfaces.empty();
  for (const MeshProcesses& mesh : meshes_.meshes())
    for (const DeviceProcess& process : mesh.processes) {
      if (!hosts.contains(process.place.host)) continue;
      loopback.by_host[process.place.host] = "lo";
      is_local = is_local && is_loopback_address(process.process.address.host);
    }
  // A run on one machine asks no head, as that may be away.
  if (is_local) return loopback;
  return networks_.interfaces_of(hosts, status());
}

void Cluster::report(const std::string& kind, const MeshKey& mesh, std::uint32_t rank,
                     const std::string& text) const {
  RunEvent event{kind, text, "", mesh.name, rank};
  if (const auto device = meshes_.device(mesh, rank)) {
    event.host = device->place.host;
    event.pid = device->pid;
  }
  reports_.warn(event);
}

void Cluster::describe(const MeshKey& mesh, std::vector<std::string> devices) {
  head_.tell<&Head::set_device_descriptions>(MeshDevices{mesh, std::move(devices)});
}

void Cluster::report_progress(const RunProgress& progress) {
  head_.tell<&Head::report_progress>(progress);
}

void Cluster::report_host_death(const std::string& host, const ExitReport& evidence) {
  head_.tell<&Head::host_died>(HostDeath{host, evidence});
}

void Cluster::report_head_death(const ExitReport& evidence) {
  lost(Error(ErrorCode::kPeerDied,
             fmt::format("the head at {} (pid {}) {}{}", to_string(head_.address()), evidence.pid,
                         evidence.summary(), evidence.log_note())));
}

bool Cluster::has_dead_process() {
  return head_.reach({})
      .head.within(kLooksWithin)
      .call<&Head::has_dead_process>(meshes_.keys())
      .get();
}

void Cluster::wait_for_change(std::uint64_t seen, Nanoseconds within, const std::stop_token& stop) {
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + within;
  std::optional<Future<std::uint64_t>> change;
  try {
    change = head_.reach({})
                 .head.within(within + kLooksWithin)
                 .call<&Head::wait_for_change>(seen, std::int64_t{within.count()});
  } catch (const Error&) {
    // The head is away: waits for failures and time alone.
  }
  const std::size_t told = failures_.count();
  while (clock.now() < give_up && !stop.stop_requested()) {
    if (change && change->ready()) return;
    if (failures_.wait_for_more(told, kLookForChangeEvery)) return;
  }
}

}  // namespace weft::actors

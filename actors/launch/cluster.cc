#include "actors/launch/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "actors/agent/agent.h"
#include "actors/agent/binary_hashes.h"
#include "actors/head/head.h"
#include "actors/launch/internal/announced_wait.h"
#include "actors/launch/internal/time_limits.h"
#include "actors/launch/token.h"
#include "actors/net/network.h"
#include "actors/supervision/stopped_process.h"
#include "core/base/platform.h"
#include "core/base/units.h"

namespace weft::actors {
namespace {

constexpr auto kSpawnWithin = std::chrono::seconds(60);
constexpr auto kAskAgainAfter = std::chrono::milliseconds(50);
/// Time limit for a head that is away: it returns within its grace, or never.
constexpr Nanoseconds kHeadReturnsWithin = std::chrono::seconds(60);
constexpr auto kReleaseWithin = std::chrono::seconds(5);
constexpr auto kEndToldWithin = std::chrono::milliseconds(500);
constexpr auto kOwnWithin = std::chrono::seconds(5);
constexpr auto kStatusWithin = std::chrono::seconds(30);
/// Time for agents to report a silent process. They count from another moment, twice a second.
constexpr auto kAgentTellsWithin = std::chrono::milliseconds(1500);

}  // namespace

std::string own_binary_sha256() { return binary_sha256("/proc/self/exe", hash_directory()); }

Cluster::Cluster(System& system, const Address& head, ClusterOptions options)
    : system_(system),
      options_(std::move(options)),
      binary_(options_.binary.empty() ? std::filesystem::read_symlink("/proc/self/exe").string()
                                      : options_.binary),
      binary_sha256_(own_binary_sha256()),
      survives_(options_.description.restart_count > 0),
      networks_(system, options_.interfaces),
      head_(system, head,
            {[this](const ProcessRef& found) { return register_driver(found); },
             [this](const std::string& how) { head_away(how); },
             [this](const JoinReply& joined, Nanoseconds away) { head_back(joined, away); },
             {},
             [this](const Error& error) { lost(error); }}) {
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
            [this](const std::string& host, const std::string& why) { host_leaves(host, why); }});
  });
  binding_.emplace(ear_, *this);
  head_.join(options_.description.restart_count > 0 ? kHeadReturnsWithin : Nanoseconds::zero());
}

Cluster::~Cluster() {
  const std::optional<Error> failed = failure();
  report_end(failed ? RunResult{RunState::kFailed, failed->message()} : RunResult{});
  binding_.reset();
  try {
    watcher_.stop().get();
  } catch (const Error&) {
    // The system has already stopped the watcher.
  }
  // The head releases remaining meshes as soon as the connection ends.
}

JoinReply Cluster::register_driver(const ProcessRef& head) {
  OwnerRegistration offer{options_.name, process_id()};
  const RunDescription& run = options_.description;
  offer.run = run.id();
  offer.replaces_driver = run.restart_count > 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, members] : meshes_) offer.held_meshes.push_back(key);
  }
  const auto asked = system_.named<Head>(head, "head").within(kOwnWithin);
  JoinReply joined = asked.call<&Head::register_owner>(offer).get();
  {
    const std::lock_guard lock(mutex_);
    for (const MeshProcesses& mesh : joined.adopted_meshes) {
      inherited_[mesh.key.name] = mesh.key;
      remember(mesh.key, mesh.processes);
    }
  }
  asked.tell<&Head::describe_run>(options_.description);
  return joined;
}

std::string Cluster::cancelled(bool now) {
  if (!options_.on_cancel)
    throw_error(ErrorCode::kFailedPrecondition,
                "{} (pid {}) does not support weft cancel; on its machine run: kill -INT {}",
                options_.name, process_id(), process_id());
  return options_.on_cancel(now);
}

void Cluster::on_hosts_leaving(std::function<void(const std::string& text)> saves) {
  const std::lock_guard lock(mutex_);
  saves_ = std::move(saves);
}

void Cluster::host_leaves(const std::string& host, const std::string& why) {
  notify_operator("host leaves", fmt::format("host {} leaves: {}", host, why));
  std::function<void(const std::string&)> saves;
  {
    const std::lock_guard lock(mutex_);
    leaving_.insert(host);
    saves = saves_;
  }
  if (saves) saves(fmt::format("host {} leaves: {}", host, why));
  else release_leaving_hosts();
}

void Cluster::release_leaving_hosts() {
  std::set<std::string> hosts;
  {
    const std::lock_guard lock(mutex_);
    hosts.swap(leaving_);
  }
  for (const std::string& host : hosts) notify_head<&Head::release_leaving_host>(host);
}

void Cluster::report_end(const RunResult& end) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(end_told_, true)) return;
  }
  try {
    // A one-way call may be dropped with the connection, which ends next.
    head_.reach({}).head.within(kEndToldWithin).call<&Head::run_ended>(end).get();
  } catch (const Error&) {
    report_end_to_agents(end);
  }
}

void Cluster::report_end_to_agents(const RunResult& end) {
  std::map<std::string, ProcessRef> agents;
  {
    const std::lock_guard lock(mutex_);
    agents = agents_;
  }
  std::vector<Future<void>> told;
  for (const auto& [host, agent] : agents)
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

void Cluster::remember(const MeshKey& key, const std::vector<DeviceProcess>& processes) {
  meshes_[key] = processes;
  for (const DeviceProcess& process : processes)
    if (process.agent.id != ProcessId()) agents_[process.place.host] = process.agent;
}

void Cluster::head_away(const std::string& how) {
  notify_operator(
      "head away",
      fmt::format("the head at {} {}; running work continues, and this process tries to reconnect",
                  to_string(head_.address()), how));
}

void Cluster::head_back(const JoinReply& joined, Nanoseconds away) {
  notify_operator("head back",
                  fmt::format("the head at {} is back after {:.1f} s (term {})",
                              to_string(head_.address()), in_seconds(away), joined.term));
}

void Cluster::notify_operator(const std::string& kind, const std::string& text) const {
  system_.options().log.warning("{}", text);
  if (options_.on_event) options_.on_event({kind, text});
}

void Cluster::report_peer_loss(const ProcessRef& peer, const std::string& how) {
  if (head_.report_peer_loss(peer, how)) return;
  std::lock_guard lock(mutex_);
  unexplained_loss_ = unexplained_loss_ || is_device(peer.id);
}

bool Cluster::is_device(ProcessId process) const {
  for (const auto& [key, members] : meshes_)
    for (const DeviceProcess& member : members)
      if (member.process.id == process && !failed_.contains(key)) return true;
  return false;
}

void Cluster::peer_timed_out(const ProcessRef& peer, Nanoseconds silence) {
  if (head_.report_peer_loss(peer, describe_silence(silence, 0))) return;
  {
    std::lock_guard lock(mutex_);
    unexplained_loss_ = unexplained_loss_ || is_device(peer.id);
  }
  system_.run_after(kAgentTellsWithin, [ear = ear_, id = peer.id, silence] {
    ear.tell([&](Cluster& cluster) { cluster.report_silent(id, silence); });
  });
}

void Cluster::report_silent(ProcessId process, Nanoseconds silence) {
  std::optional<DeathReport> report;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, members] : meshes_) {
      for (const DeviceProcess& member : members) {
        if (member.process.id != process || failed_.contains(key)) continue;
        report = DeathReport{key, member.rank, member.place.device, {}};
        report->evidence.has_parent_report = true;
        report->evidence.pid = member.pid;
        report->evidence.silence_text = describe_silence(silence, 0);
        report->evidence.log_file = member.log_file;
      }
    }
  }
  if (report) notify_head<&Head::process_died>(*report);
}

template <typename R, typename Call>
R Cluster::ask(Nanoseconds within, const Call& call) {
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + within;
  std::optional<internal::AnnouncedWait> announced;
  while (true) {
    std::uint64_t losses = head_.losses();
    std::optional<Error> problem;
    try {
      const HeadLink::Reached reached = head_.reach(give_up - clock.now());
      losses = reached.losses;
      return call(reached.head.within(give_up - clock.now()), losses);
    } catch (const Error& error) {
      problem = error;
    }
    // Retries, as a head returns and devices become free. kCancelled is retried, too: only a head
    // that ends, or has lost this program, cancels its calls.
    const bool passes = problem->code() == ErrorCode::kUnavailable ||
                        problem->code() == ErrorCode::kCancelled || head_.losses() != losses;
    const std::string& why = problem->message();
    const std::string what = "the cluster: " + why.substr(0, why.find('\n'));
    if (announced) announced->update(what);
    else announced.emplace(what, within);
    std::unique_lock lock(mutex_);
    if (!passes || lost_ || clock.now() + kAskAgainAfter >= give_up) throw Error(*problem);
    changed_.wait_for(lock, kAskAgainAfter, [this] { return lost_; });
  }
}

ClusterStatus Cluster::status() {
  return ask<ClusterStatus>(kStatusWithin, [](const ActorRef<Head>& head, std::uint64_t) {
    return head.call<&Head::status>().get();
  });
}

void Cluster::wait_for_hosts(const std::vector<std::string>& names, std::size_t at_least,
                             Nanoseconds within) {
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + within;
  internal::AnnouncedWait announced("hosts", within);
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
    if (const auto error = failure()) throw *error;
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
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, internal::kAskHeadEvery, [&] { return first_failure_.has_value(); });
  }
}

MeshProcesses Cluster::spawn_processes(const MeshRequest& request) {
  // Processes whose answer was lost are released when this program reconnects.
  return ask<MeshProcesses>(kSpawnWithin, [&](const ActorRef<Head>& head, std::uint64_t losses) {
    MeshProcesses started = head.call<&Head::spawn>(request).get();
    const std::lock_guard lock(mutex_);
    // After a loss, this program may have told the head that it does not have the mesh.
    if (head_.losses() != losses)
      throw_error(ErrorCode::kUnavailable, "the connection to the head was lost");
    remember(started.key, started.processes);
    return started;
  });
}

Cluster::Acquired Cluster::acquire(const std::string& name, const MeshShape& shape,
                                   const MeshPlacement& where) {
  {
    std::lock_guard lock(mutex_);
    // An owner that survives the death of a mesh may spawn another.
    const bool goes_on =
        (survives_ || options_.failure_scope == ClusterOptions::FailureScope::kOneMesh) && !lost_;
    if (first_failure_ && !goes_on) throw *first_failure_;
  }
  const MeshProcesses started = spawn_processes(request_of(name, shape, where));
  log_memory_caps(started.processes);
  Acquired acquired{started.key, {}};
  for (const DeviceProcess& process : started.processes)
    acquired.processes.push_back(process.process);
  return acquired;
}

std::optional<Cluster::Acquired> Cluster::adopt_processes(const std::string& name,
                                                          std::int64_t size) {
  Acquired acquired;
  {
    const std::lock_guard lock(mutex_);
    const auto found = inherited_.extract(name);
    if (!found) return std::nullopt;
    acquired.key = found.mapped();
    for (const DeviceProcess& process : meshes_.at(acquired.key))
      acquired.processes.push_back(process.process);
  }
  if (std::ssize(acquired.processes) == size) return acquired;
  release(acquired.key);
  return std::nullopt;
}

MeshRequest Cluster::request_of(const std::string& name, const MeshShape& shape,
                                const MeshPlacement& where) const {
  MeshRequest request{name, shape, where.hosts, binary_, binary_sha256_, options_.environment};
  request.environment.insert(request.environment.end(), where.environment.begin(),
                             where.environment.end());
  request.memory_cap = options_.memory_cap;
  request.places = where.places;
  return request;
}

DeviceSnapshot Cluster::places() {
  return ask<DeviceSnapshot>(kStatusWithin, [](const ActorRef<Head>& head, std::uint64_t) {
    return head.call<&Head::device_snapshot>().get();
  });
}

Cluster::Replaced Cluster::replace(const MeshKey& key, const MeshShape& shape,
                                   const MeshPlacement& where,
                                   const std::set<std::uint32_t>& broken) {
  const MeshRenewal renewal{
      key, request_of(key.name, shape, where), {broken.begin(), broken.end()}};
  Replaced result = ask<Replaced>(kSpawnWithin, [&](const ActorRef<Head>& head, std::uint64_t) {
    const RenewedMesh mesh = head.call<&Head::renew>(renewal).get();
    const std::lock_guard lock(mutex_);
    meshes_.erase(key);
    remember(mesh.key, mesh.processes);
    Replaced replaced{mesh.key, {}, {{}, {}, mesh.problem, mesh.code}};
    for (const DeviceProcess& process : mesh.processes) {
      replaced.processes.push_back(process.process);
      if (process.process.id == ProcessId()) replaced.renewed.missing.insert(process.rank);
    }
    return replaced;
  });
  return result;
}

void Cluster::release(const MeshKey& key) {
  {
    std::unique_lock lock(mutex_);
    // After the release nobody would report why a device of the mesh was lost.
    if (unexplained_loss_)
      changed_.wait_for(lock, internal::kIncidentWithinLease,
                        [&] { return first_failure_.has_value(); });
    if (meshes_.erase(key) == 0 || lost_) return;
  }
  try {
    head_.reach({}).head.within(kReleaseWithin).call<&Head::release>(key).get();
  } catch (const Error&) {
    // A head that is away learns of it when this program reconnects or has ended.
  }
}

std::vector<MemoryCap> Cluster::memory_caps_of(const MeshKey& mesh) const {
  const std::lock_guard lock(mutex_);
  std::vector<MemoryCap> caps;
  for (const DeviceProcess& process : meshes_.at(mesh)) caps.push_back(process.cap);
  return caps;
}

void Cluster::log_memory_caps(const std::vector<DeviceProcess>& processes) {
  {
    const std::lock_guard lock(mutex_);
    if (options_.memory_cap == 0 || std::exchange(caps_told_, true)) return;
  }
  std::map<std::string, std::set<std::string>> hosts;  // by the kind of cap
  for (const DeviceProcess& process : processes)
    hosts[to_string(process.cap.kind)].insert(process.place.host);
  std::vector<std::string> kinds;
  for (const auto& [kind, names] : hosts)
    kinds.push_back(hosts.size() == 1 ? kind
                                      : fmt::format("{} on {}", kind, fmt::join(names, ", ")));
  const RunEvent event{"memory cap",
                       fmt::format("device processes are capped at {} each ({})",
                                   format_bytes(options_.memory_cap), fmt::join(kinds, "; "))};
  system_.options().log.info("{}", event.cause);
  if (options_.on_event) options_.on_event(event);
}

std::vector<HostDevice> Cluster::places_of(const MeshKey& mesh) const {
  const std::lock_guard lock(mutex_);
  std::vector<HostDevice> places;
  for (const DeviceProcess& process : meshes_.at(mesh)) places.push_back(process.place);
  return places;
}

DataInterfaces Cluster::data_interfaces(const std::set<std::string>& hosts) {
  if (Network::simulated() != nullptr) return {};
  DataInterfaces loopback{{}, "lo"};
  bool is_local = options_.interfaces.empty();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, processes] : meshes_)
      for (const DeviceProcess& process : processes) {
        if (!hosts.contains(process.place.host)) continue;
        loopback.by_host[process.place.host] = "lo";
        is_local = is_local && is_loopback_address(process.process.address.host);
      }
  }
  // A run on one machine asks no head, as that may be away.
  if (is_local) return loopback;
  return networks_.interfaces_of(hosts, status());
}

std::set<std::uint32_t> Cluster::missing_ranks(const MeshKey& mesh) const {
  const std::lock_guard lock(mutex_);
  std::set<std::uint32_t> missing;
  for (const DeviceProcess& process : meshes_.at(mesh))
    if (process.process.id == ProcessId()) missing.insert(process.rank);
  return missing;
}

std::string Cluster::describe_device(const MeshKey& mesh, std::uint32_t rank) const {
  std::lock_guard lock(mutex_);
  const auto found = meshes_.find(mesh);
  if (found == meshes_.end() || rank >= found->second.size()) return "an unknown device";
  const DeviceProcess& device = found->second[rank];
  return fmt::format("{} device {} (pid {})", device.place.host, device.place.device, device.pid);
}

void Cluster::report(const std::string& kind, const MeshKey& mesh, std::uint32_t rank,
                     const std::string& text) const {
  system_.options().log.warning("{}", text);
  RunEvent event{kind, text, "", mesh.name, rank};
  {
    std::lock_guard lock(mutex_);
    const auto found = meshes_.find(mesh);
    if (found != meshes_.end() && rank < found->second.size()) {
      event.host = found->second[rank].place.host;
      event.pid = found->second[rank].pid;
    }
  }
  if (options_.on_event) options_.on_event(event);
}

void Cluster::describe(const MeshKey& mesh, std::vector<std::string> devices) {
  notify_head<&Head::set_device_descriptions>(MeshDevices{mesh, std::move(devices)});
}

void Cluster::report_progress(const RunProgress& progress) {
  notify_head<&Head::report_progress>(progress);
}

void Cluster::report_host_death(const std::string& host, const ExitReport& evidence) {
  notify_head<&Head::host_died>(HostDeath{host, evidence});
}

void Cluster::report_head_death(const ExitReport& evidence) {
  lost(Error(ErrorCode::kPeerDied,
             fmt::format("the head at {} (pid {}) {}{}", to_string(head_.address()), evidence.pid,
                         evidence.summary(), evidence.log_note())));
}

}  // namespace weft::actors

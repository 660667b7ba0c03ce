// Hosts of the cluster: how they join, are away for a while, come back, and leave.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "actors/agent/agent.h"
#include "actors/head/head.h"
#include "actors/head/head_notifications.h"
#include "actors/net/network.h"
#include "actors/net/tls.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/system.h"
#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/name.h"

namespace weft::actors {
namespace {

constexpr std::uint32_t kMaxDevices = 1024;
constexpr auto kProbeWithin = std::chrono::seconds(4);
constexpr auto kHolderAnswersWithin = std::chrono::seconds(2);
/// Number added to the epoch of a mesh without an owner until its key is free.
constexpr std::uint64_t kUnownedEpochOffset = 1'000'000'000;
/// Additional time before the meshes of a silent host fail, if it answers other hosts.
constexpr auto kPartitionGrace = std::chrono::seconds(10);
constexpr std::size_t kRemovedHosts = 16;

bool on_this_machine(const HostRegistration& offer) { return offer.machine == machine_name(); }

}  // namespace

void Head::save(const Host& host) {
  store_.put(StateStore::Table::kHosts, host.offer.name, encode(static_cast<const HostRow&>(host)));
}

void Head::save(const MeshKey& key, const Mesh& mesh) {
  store_.put(StateStore::Table::kMeshes, key.text(), encode(static_cast<const MeshRow&>(mesh)));
}

void Head::read_rows() {
  try {
    read_all_rows();
  } catch (...) {
    throw_error(
        ErrorCode::kDataLoss,
        "cannot read hosts and runs from the head's state in {}: {}; start a new cluster with "
        "another directory (--state)",
        config_.state_directory.string(), current_error().message());
  }
}

void Head::read_all_rows() {
  const TimePoint now = clock_.now();
  for (const auto& [name, row] : store_.rows(StateStore::Table::kHosts)) {
    Host& host = hosts_[name];
    static_cast<HostRow&>(host) = decode<HostRow>(row);
    check_row(host);
    host.joined = now;
    host.away_since = now;
    allocator_.add_host(name, host.offer.devices);
    allocator_.set_away(name, true);
  }
  for (const auto& [name, row] : store_.rows(StateStore::Table::kOwners)) {
    Owner owner;
    static_cast<OwnerRow&>(owner) = decode<OwnerRow>(row);
    owner.away_since = now;
    owners_[owner.process.id] = owner;
  }
  for (const auto& [name, row] : store_.rows(StateStore::Table::kMeshes)) {
    Mesh mesh;
    static_cast<MeshRow&>(mesh) = decode<MeshRow>(row);
    check_row(mesh);
    const MeshKey key = MeshKey::of_text(name);
    mesh.failed = mesh.incident.has_value();
    // The start has failed with the earlier head, or the mesh has no owner.
    if (mesh.processes.empty() || !owners_.contains(mesh.owner))
      mesh.failed = mesh.releasing = true;
    for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank)
      if (!mesh.detached_ranks.contains(rank)) allocator_.assign({mesh.places[rank]}, key);
    meshes_[key] = std::move(mesh);
  }
}

Head::Host* Head::host_of(ProcessId agent) {
  for (auto& [name, host] : hosts_)
    if (host.agent.id == agent) return &host;
  return nullptr;
}

bool Head::is_connected(ProcessId process) const {
  return std::ranges::any_of(context_.system().peers(),
                             [&](const ProcessRef& peer) { return peer.id == process; });
}

std::optional<NameHolder> Head::holder_of(const HostRegistration& offer, ProcessId caller) const {
  const auto known = hosts_.find(offer.name);
  if (known == hosts_.end() || known->second.agent.id == caller ||
      offer.replaces == known->second.agent.id)
    return std::nullopt;
  // A holder that has just not answered is soon marked as away, or removed.
  const Nanoseconds left = known->second.away_since
                               ? *known->second.away_since + config_.grace - clock_.now()
                               : Nanoseconds::zero();
  return NameHolder{known->second.agent.id, known->second.offer.pid, known->second.offer.machine,
                    left.count()};
}

void Head::check_reachable(const std::string& name, const std::string& address) const {
  if (Network::simulated() != nullptr) return;
  const bool local = is_loopback(address);
  for (const auto& [other, host] : hosts_) {
    if (other == name || host.away_since || is_loopback(host.agent.address.host) == local) continue;
    const std::string& misfit = local ? name : other;
    throw_error(
        ErrorCode::kFailedPrecondition,
        "host '{}' uses the loopback address {}, which host '{}' at {} cannot reach; stop its "
        "agent and start weft join with the network address that `weft head` prints",
        misfit, local ? address : host.agent.address.host, local ? other : name,
        local ? host.agent.address.host : address);
  }
}

task<bool> Head::holder_answers(std::string name, ProcessId caller) {
  const auto known = hosts_.find(name);
  if (known == hosts_.end() || known->second.agent.id == caller || known->second.away_since)
    co_return false;
  const ProcessId agent = known->second.agent.id;
  auto answer = context_.system()
                    .named<Agent>(known->second.agent, "agent")
                    .within(kHolderAnswersWithin)
                    .call<&Agent::ping>();
  bool answered = true;
  try {
    co_await answer;
  } catch (const Error&) {
    answered = false;
  }
  const auto now = hosts_.find(name);
  co_return answered&& now != hosts_.end() && now->second.agent.id == agent;
}

task<JoinReply> Head::join(HostRegistration offer, AgentReport devices) {
  check_name("the name of a host (weft join --name)", offer.name);
  if (offer.devices == 0 || offer.devices > kMaxDevices)
    throw_error(ErrorCode::kInvalidArgument,
                "host '{}' offers {} devices; give --devices N, 1 to {}", offer.name, offer.devices,
                kMaxDevices);
  const ProcessRef agent = context_.caller();
  check_reachable(offer.name, agent.address.host);
  auto asked = holder_answers(offer.name, agent.id);
  const bool taken = co_await asked;
  // A disconnected caller was reported before it was a host, so nothing would remove the host.
  if (!is_connected(agent.id))
    throw_error(ErrorCode::kPeerDied, "the agent of host '{}' ended while it joined", offer.name);
  if (taken)
    throw_error(ErrorCode::kAlreadyExists,
                "a host named '{}' has joined already; give this one another name with --name",
                offer.name);
  JoinReply joined{store_.cluster_id(), store_.term(), config_.grace.count(),
                   holder_of(offer, agent.id)};
  if (joined.name_holder) co_return joined;
  if (const auto known = hosts_.find(offer.name);
      known != hosts_.end() && known->second.agent.id != agent.id) {
    ExitReport evidence;
    evidence.pid = known->second.offer.pid;
    remove_host(offer.name, evidence, "has ended, as the next agent of that name found");
  }
  const auto known = hosts_.find(offer.name);
  const bool again = known != hosts_.end() && known->second.agent.id == agent.id;
  if (!again) {
    allocator_.add_host(offer.name, offer.devices);
    hosts_[offer.name] = Host{{offer, agent}, clock_.now()};
    for (const auto& [key, mesh] : meshes_)
      for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank)
        if (mesh.places[rank].host == offer.name && !mesh.detached_ranks.contains(rank))
          allocator_.assign({mesh.places[rank]}, key);
  }
  forget_removed(offer.name);
  Host& host = hosts_.at(offer.name);
  host.agent = agent;
  const std::optional<TimePoint> away_since = std::exchange(host.away_since, std::nullopt);
  host.suspect = false;
  host.reached_by.clear();
  host.meshes_fail_at.reset();
  allocator_.set_away(offer.name, false);
  save(host);
  if (!again)
    event(fmt::format("host {} joined: {} device{}, {}, agent pid {} at {}", offer.name,
                      offer.devices, offer.devices == 1 ? "" : "s", offer.instruction_set,
                      offer.pid, to_string(agent.address)));
  else if (away_since)
    event(fmt::format("host {} reconnected after {:.1f} s", offer.name,
                      in_seconds(clock_.now() - *away_since)));
  reconcile(offer, devices);
  // Continues releases that an earlier head has not completed.
  for (auto& [key, mesh] : meshes_)
    if (mesh.releasing) begin_release(key, mesh);
  co_return joined;
}

void Head::reconcile(const HostRegistration& offer, const AgentReport& devices) {
  for (const OwnerExit& end : devices.owners_ended) close_owner(end);
  for (const DeathReport& death : devices.deaths) process_died(death);
  std::map<MeshKey, std::map<std::uint32_t, DeviceProcess>> running;
  for (const RunningDevice& each : devices.running)
    running[each.key].emplace(each.process.rank, each.process);
  for (auto& [key, mesh] : meshes_) {
    const auto found = running.find(key);
    const auto runs = [&](const DeviceProcess& process) {
      if (found == running.end()) return false;
      const auto here = found->second.find(process.rank);
      return here != found->second.end() && here->second.process.id == process.process.id;
    };
    for (std::uint32_t rank = 0; rank < mesh.processes.size(); ++rank) {
      if (mesh.places[rank].host != offer.name || mesh.detached_ranks.contains(rank) ||
          mesh.failed || mesh.releasing || mesh.processes[rank].process.id == ProcessId() ||
          runs(mesh.processes[rank]))
        continue;
      ExitReport evidence;
      evidence.pid = mesh.processes[rank].pid;
      fail(key, mesh, rank, evidence, "it ended while its host was disconnected from the head",
           on_this_machine(offer));
    }
  }
  // Ends processes whose mesh was released while the host was away, or was never recorded.
  for (const auto& [key, ranks] : running) {
    store_.raise_mesh_epoch(key.name, key.epoch);
    const auto mesh = meshes_.find(key);
    const bool starts = mesh != meshes_.end() && !mesh->second.releasing &&
                        (mesh->second.processes.empty() || mesh->second.renewing);
    if (starts) continue;
    std::map<std::uint32_t, DeviceProcess> strangers;
    for (const auto& [rank, process] : ranks)
      if (mesh == meshes_.end() || !has_process(mesh->second, rank, process))
        strangers.emplace(rank, process);
    if (!strangers.empty()) stop_unknown_processes(offer, key, strangers);
  }
}

bool Head::has_process(const Mesh& mesh, std::uint32_t rank, const DeviceProcess& process) {
  if (rank < mesh.processes.size()) return mesh.processes[rank].process.id == process.process.id;
  return std::ranges::find(mesh.places, process.place) != mesh.places.end();
}

void Head::stop_unknown_processes(const HostRegistration& offer, const MeshKey& key,
                                  const std::map<std::uint32_t, DeviceProcess>& strangers) {
  // A mesh of that name and epoch may exist, with processes on other hosts or with an owner.
  MeshKey own = key;
  while (meshes_.contains(own)) own.epoch += kUnownedEpochOffset;
  Mesh& mesh = meshes_[own];
  mesh.request.mesh = key.name;
  mesh.failed = mesh.releasing = true;
  mesh.release_started = true;
  PendingStop stopping{offer.name, hosts_.at(offer.name).agent, std::nullopt, key, {}};
  for (const auto& [rank, process] : strangers) {
    mesh.places.push_back(process.place);
    allocator_.assign({process.place}, own);
    stopping.ranks.push_back(rank);
  }
  mesh.request.shape = MeshShape{{"rank", static_cast<std::int64_t>(mesh.places.size())}};
  stopping.reply = stop_ranks_on(stopping.agent, key, true, stopping.ranks);
  mesh.stopping.push_back(std::move(stopping));
  save(own, mesh);
  context_.system().ref<Head>(context_.self()).tell<&Head::finish_release>(own);
  event(fmt::format(
      "host {} still runs mesh {} (epoch {}), which no driver owns; it is being stopped",
      offer.name, key.name, key.epoch));
}

void Head::drain_host(const std::string& why) {
  Host* host = host_of(context_.caller().id);
  if (host == nullptr || host->leaving) return;
  const std::string name = host->offer.name;
  host->leaving = why;
  allocator_.set_leaving(name);
  for (const auto& [id, owner] : owners_)
    if (!owner.away_since) notify_host_leaving(owner, *host);
  event(fmt::format("host {} is leaving the cluster: {}", name, why));
}

void Head::notify_host_leaving(const Owner& owner, const Host& host) {
  const auto uses_it = [&](const auto& of) {
    const Mesh& mesh = of.second;
    if (mesh.owner != owner.process.id || mesh.releasing) return false;
    for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank)
      if (mesh.places[rank].host == host.offer.name && !mesh.detached_ranks.contains(rank))
        return true;
    return false;
  };
  if (std::ranges::any_of(meshes_, uses_it))
    context_.system()
        .named<HeadNotifications>(owner.process, "watcher")
        .tell<&HeadNotifications::host_leaves>(host.offer.name, *host.leaving);
}

void Head::release_leaving_host(const std::string& name) {
  const auto found = hosts_.find(name);
  if (found == hosts_.end() || !found->second.leaving) return;
  const Host& host = found->second;
  ExitReport orderly;
  orderly.has_parent_report = true;
  orderly.pid = host.offer.pid;
  const ProcessId owner = context_.caller().id;
  for (auto& [key, mesh] : meshes_) {
    if (mesh.owner != owner || mesh.releasing) continue;
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank)
      if (mesh.places[rank].host == name && !mesh.detached_ranks.contains(rank))
        ranks.push_back(rank);
    for (const std::uint32_t rank : ranks)
      fail(key, mesh, rank, orderly,
           fmt::format("its agent (pid {}) is leaving the cluster: {}", host.offer.pid,
                       *host.leaving),
           false);
    // Replacements may come late, or never, and the agent waits for the end of its processes.
    if (!ranks.empty())
      context_.system()
          .named<Agent>(host.agent, "agent")
          .tell<&Agent::stop_mesh>(key, true, store_.term(), ranks);
  }
}

void Head::leave(const std::string& why) {
  const Host* host = host_of(context_.caller().id);
  if (host == nullptr) return;
  ExitReport orderly;
  orderly.has_parent_report = true;
  orderly.pid = host->offer.pid;
  remove_host(std::string(host->offer.name), orderly, "has left: " + why);
}

void Head::check_called_locally() const {
  if (context_.caller().id != context_.system().self().id)
    throw_error(ErrorCode::kInvalidArgument, "only the head's own process may call this");
}

void Head::host_died(HostDeath death) {
  const auto host = hosts_.find(death.host);
  // Another agent of that name may have joined already.
  if (host == hosts_.end() || !host->second.offer.has_parent ||
      host->second.offer.pid != death.evidence.pid)
    return;
  const ProcessRef agent = host->second.agent;
  remove_host(death.host, death.evidence, death.evidence.summary());
  context_.system().declare_dead(
      agent.id,
      Error(ErrorCode::kPeerDied, fmt::format("the agent of host {} (pid {}) {}", death.host,
                                              death.evidence.pid, death.evidence.summary())));
}

std::vector<ProcessRef> Head::probers_of(const Host& host) const {
  std::vector<ProcessRef> probers;
  for (const auto& [name, other] : hosts_)
    if (name != host.offer.name && !other.suspect && !other.away_since && probers.size() < 2)
      probers.push_back(other.agent);
  return probers;
}

task<void> Head::peer_suspected(ProcessId peer, std::int64_t silence_ns) {
  check_called_locally();
  Host* host = host_of(peer);
  if (host == nullptr || host->away_since) co_return;
  host->suspect = silence_ns >= 0;
  host->reached_by.clear();
  allocator_.set_away(host->offer.name, host->suspect);
  const std::string name = host->offer.name;
  if (!host->suspect) co_return event(fmt::format("host {} answers again", name));
  const std::vector<ProcessRef> probers = probers_of(*host);
  const ProcessRef agent = host->agent;
  event(fmt::format(
      "host {} may have failed: it {}; {}", name,
      describe_silence(Nanoseconds(silence_ns), on_this_machine(host->offer) ? host->offer.pid : 0),
      probers.empty() ? "no other host can probe it"
                      : fmt::format("{} other host{} it", probers.size(),
                                    probers.size() == 1 ? " probes" : "s probe")));
  std::vector<Future<bool>> answers;
  for (const ProcessRef& prober : probers)
    answers.push_back(context_.system()
                          .named<Agent>(prober, "agent")
                          .within(kProbeWithin)
                          .call<&Agent::probe>(agent));
  std::vector<std::string> reached_by;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Future<bool>& answer = answers[i];
    try {
      const bool reached = co_await answer;
      if (reached) reached_by.push_back(probers[i].name);
    } catch (const Error&) {
      // The prober's failure proves nothing about the host.
    }
  }
  host = host_of(peer);
  if (host == nullptr || (!host->suspect && !host->away_since) || reached_by.empty()) co_return;
  host->reached_by = reached_by;
  event(
      fmt::format("network partition: host {} answers {}, but not the head; check the network "
                  "between it and the head",
                  name, fmt::join(reached_by, " and ")));
}

void Head::peer_timed_out(ProcessId peer, std::int64_t silence_ns) {
  check_called_locally();
  Host* host = host_of(peer);
  if (host == nullptr) return;
  host->silence_text =
      describe_silence(Nanoseconds(silence_ns),
                       on_this_machine(host->offer) ? static_cast<pid_t>(host->offer.pid) : 0);
  set_away(*host, host->silence_text);
  if (host->reached_by.empty()) return fail_silent(*host);
  host->silence_text +=
      fmt::format(", though it answers {}: the network between it and the head is cut",
                  fmt::join(host->reached_by, " and "));
  host->meshes_fail_at = clock_.now() + kPartitionGrace;
}

void Head::fail_silent(Host& host) {
  host.meshes_fail_at.reset();
  ExitReport evidence;
  evidence.pid = host.offer.pid;
  evidence.silence_text = host.silence_text;
  fail_meshes_on(host, evidence,
                 fmt::format("its agent (pid {}) {}", host.offer.pid, evidence.summary()));
  // Fails launches that wait for the host.
  context_.system().fail_calls(
      host.agent.id,
      Error(ErrorCode::kPeerDied, fmt::format("host {} (agent pid {}) {}", host.offer.name,
                                              host.offer.pid, evidence.summary())));
}

void Head::peer_disconnected(ProcessId peer, bool cut_off) {
  check_called_locally();
  if (Host* host = host_of(peer); host != nullptr && cut_off) {
    set_away(*host, "its connection is lost");
  } else if (host != nullptr) {
    ExitReport evidence;
    evidence.pid = host->offer.pid;
    remove_host(std::string(host->offer.name), evidence, evidence.summary());
  }
  owner_lost(peer, cut_off);
}

void Head::set_away(Host& host, const std::string& why) {
  if (host.away_since) return;
  host.away_since = clock_.now();
  allocator_.set_away(host.offer.name, true);
  event(fmt::format("host {} does not answer: {}; it is removed in {:.0f} s unless it reconnects",
                    host.offer.name, why, in_seconds(config_.grace)));
}

void Head::expire_silent_peers() {
  check_called_locally();
  const auto too_long = [&](const std::optional<TimePoint>& away_since) {
    return away_since && clock_.now() - *away_since > config_.grace;
  };
  const std::string how =
      fmt::format("did not reconnect within {:.0f} s", in_seconds(config_.grace));
  std::vector<std::string> hosts;
  for (auto& [name, host] : hosts_) {
    if (host.meshes_fail_at && *host.meshes_fail_at < clock_.now()) fail_silent(host);
    if (too_long(host.away_since)) hosts.push_back(name);
  }
  for (const std::string& name : hosts) {
    ExitReport evidence;
    evidence.pid = hosts_.at(name).offer.pid;
    evidence.silence_text = how;
    remove_host(name, evidence, how);
  }
  for (auto& [key, mesh] : meshes_)
    if (mesh.releasing) begin_release(key, mesh);
  expire_owners();
}

void Head::fail_meshes_on(const Host& host, const ExitReport& evidence, const std::string& note) {
  for (auto& [key, mesh] : meshes_)
    for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank)
      if (mesh.places[rank].host == host.offer.name && !mesh.detached_ranks.contains(rank) &&
          !mesh.releasing)
        fail(key, mesh, rank, evidence, note, on_this_machine(host.offer));
}

void Head::remove_host(const std::string& name, const ExitReport& evidence,
                       const std::string& why) {
  const auto found = hosts_.find(name);
  if (found == hosts_.end()) return;
  const Host host = found->second;
  hosts_.erase(found);
  store_.erase(StateStore::Table::kHosts, name);
  allocator_.remove_host(name);
  if (stopping_) return event(fmt::format("host {} has ended", name));
  const std::string note = fmt::format("its agent (pid {}) {}", host.offer.pid, why);
  runs_.close_runs_of_host(name, note);
  fail_meshes_on(host, evidence, note);
  for (auto& [key, mesh] : meshes_) {
    for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank)
      if (mesh.places[rank].host == name) mesh.detached_ranks.insert(rank);
    save(key, mesh);
  }
  forget_removed(name);
  removed_hosts_.emplace_back(name, note);
  if (removed_hosts_.size() > kRemovedHosts) removed_hosts_.erase(removed_hosts_.begin());
  event(fmt::format("host {} was removed from the cluster: {}", name, note));
}

void Head::forget_removed(const std::string& name) {
  std::erase_if(removed_hosts_, [&](const auto& host) { return host.first == name; });
}

std::string Head::removed_hosts_note(const MeshRequest& request) const {
  std::string note;
  for (const auto& [name, why] : removed_hosts_)
    if (request.hosts.empty() || std::ranges::find(request.hosts, name) != request.hosts.end())
      note += fmt::format("\n  host {} was removed from the cluster: {}", name, why);
  return note;
}

bool Head::waits_for_devices() const {
  const auto is_away = [](const auto& of) { return of.second.away_since.has_value(); };
  return std::ranges::any_of(hosts_, is_away) || std::ranges::any_of(owners_, is_away) ||
         std::ranges::any_of(meshes_, [](const auto& of) { return of.second.releasing; });
}

}  // namespace weft::actors

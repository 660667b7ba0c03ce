#include "actors/head/host_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/agent/agent.h"
#include "actors/net/network.h"
#include "actors/net/tls.h"
#include "actors/system/system.h"
#include "core/base/error.h"
#include "core/base/name.h"

namespace weft::actors {
namespace {

constexpr std::uint32_t kMaxDevices = 1024;
constexpr auto kHolderAnswersWithin = std::chrono::seconds(2);
constexpr std::size_t kRemovedHosts = 16;

/// Throws Error(kInvalidArgument) for numbers and names that no host can have.
Amounts amounts_of_host(const HostRegistration& offer) {
  const HostCapacity& capacity = offer.capacity;
  return amounts_of(fmt::format("host '{}'", offer.name),
                    {offer.devices, capacity.cpus > 0 ? capacity.cpus : offer.processors,
                     capacity.memory, capacity.custom});
}

void check_capacity(const HostRegistration& offer) {
  (void)amounts_of_host(offer);
  for (const auto& [key, value] : offer.capacity.labels) {
    check_name(fmt::format("host '{}': the key of a label", offer.name), key);
    check_name(fmt::format("host '{}': the value of label {}", offer.name, key), value);
  }
}

}  // namespace

void HostTable::save(const Host& host) {
  store_.put(StateStore::Table::kHosts, host.offer.name, encode(static_cast<const HostRow&>(host)));
}

void HostTable::read_rows() {
  const TimePoint now = clock_.now();
  for (const auto& [name, row] : store_.rows(StateStore::Table::kHosts)) {
    Host& host = hosts_[name];
    static_cast<HostRow&>(host) = decode<HostRow>(row);
    check_row(host);
    host.joined = now;
    host.away_since = now;
    resources_.add_host(name, amounts_of_host(host.offer), host.offer.capacity.labels);
    resources_.set_away(name, true);
  }
}

const HostTable::Host* HostTable::find(const std::string& name) const {
  const auto found = hosts_.find(name);
  return found == hosts_.end() ? nullptr : &found->second;
}

const HostTable::Host* HostTable::of_agent(ProcessId agent) const {
  for (const auto& [name, host] : hosts_)
    if (host.agent.id == agent) return &host;
  return nullptr;
}

std::string HostTable::name_of_host(ProcessId agent) const {
  const Host* const host = of_agent(agent);
  return host == nullptr ? "" : host->offer.name;
}

HostTable::Host* HostTable::find_by_agent(ProcessId agent) {
  return const_cast<Host*>(std::as_const(*this).of_agent(agent));
}

bool HostTable::any_away() const {
  return std::ranges::any_of(hosts_,
                             [](const auto& of) { return of.second.away_since.has_value(); });
}

std::map<std::string, std::vector<std::uint32_t>> HostTable::group_by_host(
    const std::vector<HostDevice>& places, const std::set<std::uint32_t>& ranks) const {
  std::map<std::string, std::vector<std::uint32_t>> groups;
  for (const std::uint32_t rank : ranks) {
    const std::string& name = places[rank].host;
    const Host* const host = find(name);
    if (host != nullptr && !host->away_since) groups[name].push_back(rank);
  }
  return groups;
}

bool HostTable::is_connected(ProcessId process) const {
  return std::ranges::any_of(system_.peers(),
                             [&](const ProcessRef& peer) { return peer.id == process; });
}

std::optional<NameHolder> HostTable::holder_of(const HostRegistration& offer,
                                               ProcessId caller) const {
  const Host* const known = find(offer.name);
  if (known == nullptr || known->agent.id == caller || offer.replaces == known->agent.id)
    return std::nullopt;
  // A holder that has just not answered is soon marked as away, or removed.
  const Nanoseconds left =
      known->away_since ? *known->away_since + grace_ - clock_.now() : Nanoseconds::zero();
  return NameHolder{known->agent.id, known->offer.pid, known->offer.machine, left.count()};
}

void HostTable::check_reachable(const std::string& name, const std::string& address) const {
  if (ControlNetwork::simulated() != nullptr) return;
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

task<bool> HostTable::holder_answers(std::string name, ProcessId caller) {
  const Host* const known = find(name);
  if (known == nullptr || known->agent.id == caller || known->away_since) co_return false;
  const ProcessId agent = known->agent.id;
  auto answer =
      system_.named<Agent>(known->agent, "agent").within(kHolderAnswersWithin).call<&Agent::ping>();
  bool answered = true;
  try {
    co_await answer;
  } catch (const Error&) {
    answered = false;
  }
  const Host* const now = find(name);
  co_return answered&& now != nullptr && now->agent.id == agent;
}

task<JoinReply> HostTable::join(ProcessRef agent, HostRegistration offer, AgentReport report) {
  check_name("the name of a host (weft join --name)", offer.name);
  if (offer.devices > kMaxDevices)
    throw_error(ErrorCode::kInvalidArgument,
                "host '{}' offers {} devices; give --devices N, 0 to {}", offer.name, offer.devices,
                kMaxDevices);
  check_capacity(offer);
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
  JoinReply joined{store_.cluster_id(), store_.term(), grace_.count(), holder_of(offer, agent.id)};
  if (joined.name_holder) co_return joined;
  if (const Host* const former = find(offer.name);
      former != nullptr && former->agent.id != agent.id) {
    ExitReport evidence;
    evidence.pid = former->offer.pid;
    remove(offer.name, evidence, "has ended, as the next agent of that name found");
  }
  admit(offer, agent);
  observer_.host_joined(offer, report);
  co_return joined;
}

void HostTable::admit(const HostRegistration& offer, const ProcessRef& agent) {
  const bool is_new = !hosts_.contains(offer.name);
  if (is_new) {
    resources_.add_host(offer.name, amounts_of_host(offer), offer.capacity.labels);
    hosts_[offer.name] = Host{{offer, agent}, clock_.now()};
    observer_.host_added(offer.name);
  }
  forget_removed(offer.name);
  Host& host = hosts_.at(offer.name);
  host.agent = agent;
  const std::optional<TimePoint> away_since = std::exchange(host.away_since, std::nullopt);
  host.suspect = false;
  host.reached_by.clear();
  host.fails_at.reset();
  resources_.set_away(offer.name, false);
  save(host);
  if (is_new)
    log_.record(fmt::format("host {} joined: {} device{}, {}, agent pid {} at {}", offer.name,
                            offer.devices, offer.devices == 1 ? "" : "s", offer.instruction_set,
                            offer.pid, to_string(agent.address)));
  else if (away_since)
    log_.record(fmt::format("host {} reconnected after {:.1f} s", offer.name,
                            in_seconds(clock_.now() - *away_since)));
}

void HostTable::drain(ProcessId agent, const std::string& why) {
  Host* const host = find_by_agent(agent);
  if (host == nullptr || host->leaving) return;
  const std::string name = host->offer.name;
  host->leaving = why;
  resources_.set_leaving(name);
  observer_.host_leaving(name, why);
  log_.record(fmt::format("host {} is leaving the cluster: {}", name, why));
}

void HostTable::leave(ProcessId agent, const std::string& why) {
  const Host* const host = of_agent(agent);
  if (host == nullptr) return;
  ExitReport orderly;
  orderly.has_parent_report = true;
  orderly.pid = host->offer.pid;
  remove(host->offer.name, orderly, "has left: " + why);
}

void HostTable::agent_died(const HostDeath& death) {
  const Host* const host = find(death.host);
  // Another agent of that name may have joined already.
  if (host == nullptr || !host->offer.has_parent || host->offer.pid != death.evidence.pid) return;
  const ProcessId agent = host->agent.id;
  remove(death.host, death.evidence, death.evidence.summary());
  system_.declare_dead(agent, Error(ErrorCode::kPeerDied,
                                    fmt::format("the agent of host {} (pid {}) {}", death.host,
                                                death.evidence.pid, death.evidence.summary())));
}

void HostTable::remove(std::string name, const ExitReport& evidence, const std::string& why) {
  const auto found = hosts_.find(name);
  if (found == hosts_.end()) return;
  const HostRegistration gone = found->second.offer;
  hosts_.erase(found);
  store_.erase(StateStore::Table::kHosts, name);
  resources_.remove_host(name);
  if (ends_expected_) return log_.record(fmt::format("host {} has ended", name));
  const std::string note = fmt::format("its agent (pid {}) {}", gone.pid, why);
  observer_.host_removed(gone, evidence, note);
  forget_removed(name);
  removed_hosts_.emplace_back(name, note);
  if (removed_hosts_.size() > kRemovedHosts) removed_hosts_.erase(removed_hosts_.begin());
  log_.record(fmt::format("host {} was removed from the cluster: {}", name, note));
}

void HostTable::forget_removed(const std::string& name) {
  std::erase_if(removed_hosts_, [&](const auto& host) { return host.first == name; });
}

std::string HostTable::removed_hosts_note(const MeshRequest& request) const {
  std::string note;
  for (const auto& [name, why] : removed_hosts_)
    if (request.hosts.empty() || std::ranges::find(request.hosts, name) != request.hosts.end())
      note += fmt::format("\n  host {} was removed from the cluster: {}", name, why);
  return note;
}

std::vector<Member> HostTable::members() const {
  std::vector<Member> list;
  for (const auto& [name, host] : hosts_) {
    list.push_back({name, host.agent, host.offer.pid, host.offer.machine, ""});
    if (host.away_since)
      list.back().unreachable_note = fmt::format("does not answer the head since {:.0f} s",
                                                 in_seconds(clock_.now() - *host.away_since));
    else if (host.suspect) list.back().unreachable_note = "has been silent for some seconds";
  }
  return list;
}

std::vector<HostStatus> HostTable::statuses() const {
  std::vector<HostStatus> list;
  for (const auto& [name, host] : hosts_) {
    list.push_back({host.offer, to_string(host.agent.address),
                    std::vector<std::string>(host.offer.devices),
                    in_seconds(clock_.now() - host.joined), std::nullopt, host.suspect,
                    host.leaving.has_value(), host.agent});
    list.back().total = resources_.total_of(name);
    list.back().used = resources_.used_on(name);
    if (host.away_since)
      list.back().unreachable_seconds = in_seconds(clock_.now() - *host.away_since);
  }
  return list;
}

}  // namespace weft::actors

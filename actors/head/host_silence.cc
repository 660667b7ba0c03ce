// Hosts that do not answer: suspicion, network partitions, absence, and removal.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/agent/agent.h"
#include "actors/head/host_table.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kProbeWithin = std::chrono::seconds(4);
/// Additional time before a silent host fails, if it answers other hosts.
constexpr auto kPartitionGrace = std::chrono::seconds(10);

}  // namespace

std::vector<ProcessRef> HostTable::probers_of(const Host& host) const {
  std::vector<ProcessRef> probers;
  for (const auto& [name, other] : hosts_)
    if (name != host.offer.name && !other.suspect && !other.away_since && probers.size() < 2)
      probers.push_back(other.agent);
  return probers;
}

task<std::vector<std::string>> HostTable::probe(ProcessRef agent, std::vector<ProcessRef> probers) {
  std::vector<Future<bool>> answers;
  for (const ProcessRef& prober : probers)
    answers.push_back(
        system_.named<Agent>(prober, "agent").within(kProbeWithin).call<&Agent::probe>(agent));
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
  co_return reached_by;
}

task<void> HostTable::suspected(ProcessId agent, std::int64_t silence_ns) {
  Host* host = find_by_agent(agent);
  if (host == nullptr || host->away_since) co_return;
  host->suspect = silence_ns >= 0;
  host->reached_by.clear();
  resources_.set_away(host->offer.name, host->suspect);
  const std::string name = host->offer.name;
  if (!host->suspect) co_return log_.record(fmt::format("host {} answers again", name));
  const std::vector<ProcessRef> probers = probers_of(*host);
  log_.record(fmt::format("host {} may have failed: it {}; {}", name,
                          describe_silence(Nanoseconds(silence_ns),
                                           is_on_this_machine(host->offer) ? host->offer.pid : 0),
                          probers.empty()
                              ? "no other host can probe it"
                              : fmt::format("{} other host{} it", probers.size(),
                                            probers.size() == 1 ? " probes" : "s probe")));
  auto probing = probe(host->agent, probers);
  const std::vector<std::string> reached_by = co_await probing;
  host = find_by_agent(agent);
  if (host == nullptr || (!host->suspect && !host->away_since) || reached_by.empty()) co_return;
  host->reached_by = reached_by;
  log_.record(
      fmt::format("network partition: host {} answers {}, but not the head; check the network "
                  "between it and the head",
                  name, fmt::join(reached_by, " and ")));
}

void HostTable::timed_out(ProcessId agent, std::int64_t silence_ns) {
  Host* const host = find_by_agent(agent);
  if (host == nullptr) return;
  host->silence_text =
      describe_silence(Nanoseconds(silence_ns),
                       is_on_this_machine(host->offer) ? static_cast<pid_t>(host->offer.pid) : 0);
  set_away(*host, host->silence_text);
  if (host->reached_by.empty()) return fail_silent(*host);
  host->silence_text +=
      fmt::format(", though it answers {}: the network between it and the head is cut",
                  fmt::join(host->reached_by, " and "));
  host->fails_at = clock_.now() + kPartitionGrace;
}

void HostTable::fail_silent(Host& host) {
  host.fails_at.reset();
  ExitReport evidence;
  evidence.pid = host.offer.pid;
  evidence.silence_text = host.silence_text;
  observer_.host_failed(host.offer, evidence,
                        fmt::format("its agent (pid {}) {}", host.offer.pid, evidence.summary()));
  // Fails launches that wait for the host.
  system_.fail_calls(host.agent.id, Error(ErrorCode::kPeerDied,
                                          fmt::format("host {} (agent pid {}) {}", host.offer.name,
                                                      host.offer.pid, evidence.summary())));
}

void HostTable::disconnected(ProcessId agent, bool cut_off) {
  Host* const host = find_by_agent(agent);
  if (host == nullptr) return;
  if (cut_off) return set_away(*host, "its connection is lost");
  ExitReport evidence;
  evidence.pid = host->offer.pid;
  remove(host->offer.name, evidence, evidence.summary());
}

void HostTable::set_away(Host& host, const std::string& why) {
  if (host.away_since) return;
  host.away_since = clock_.now();
  resources_.set_away(host.offer.name, true);
  log_.record(
      fmt::format("host {} does not answer: {}; it is removed in {:.0f} s unless it reconnects",
                  host.offer.name, why, in_seconds(grace_)));
}

void HostTable::expire() {
  std::vector<std::string> expired;
  for (auto& [name, host] : hosts_) {
    if (host.fails_at && *host.fails_at < clock_.now()) fail_silent(host);
    if (host.away_since && clock_.now() - *host.away_since > grace_) expired.push_back(name);
  }
  const std::string how = fmt::format("did not reconnect within {:.0f} s", in_seconds(grace_));
  for (const std::string& name : expired) {
    ExitReport evidence;
    evidence.pid = hosts_.at(name).offer.pid;
    evidence.silence_text = how;
    remove(name, evidence, how);
  }
}

}  // namespace weft::actors

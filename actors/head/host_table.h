#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/call/task.h"
#include "actors/head/cluster_messages.h"
#include "actors/head/cluster_rows.h"
#include "actors/head/event_log.h"
#include "actors/head/resource_allocator.h"
#include "actors/head/run_messages.h"
#include "actors/head/state_store.h"
#include "core/base/clock.h"

namespace weft::actors {

class System;

/// Observer of a HostTable. Called on the head's thread while the table changes.
class HostObserver {
 public:
  virtual ~HostObserver() = default;
  /// Called when a new host is in the table and its devices are free.
  virtual void host_added(const std::string& host) = 0;
  /// Called when a host has joined or reconnected, with the report of its agent.
  virtual void host_joined(const HostRegistration& host, const AgentReport& report) = 0;
  /// Called when a host begins to leave.
  virtual void host_leaving(const std::string& host, const std::string& why) = 0;
  /// Called when a host has been silent for too long. Its processes count as dead, and it may
  /// reconnect. `note`: "its agent (pid 7) has not responded for 10.2 s".
  virtual void host_failed(const HostRegistration& host, const ExitReport& evidence,
                           const std::string& note) = 0;
  /// Called when a host has ended, left, or was away for too long. It is not in the table any more.
  virtual void host_removed(const HostRegistration& host, const ExitReport& evidence,
                            const std::string& note) = 0;
};

/// Hosts of a cluster, and whether they answer. A host that is away keeps its name and its devices
/// for a grace period. Adds hosts to the ResourceAllocator and removes them; knows no meshes.
///
/// Saves each host as a row of the head's state. All hosts of an earlier head are away at first.
/// Owned by the head; its thread only.
class HostTable final {
 public:
  struct Host : HostRow {
    TimePoint joined;
    std::optional<TimePoint> away_since = {};
    bool suspect = false;                      ///< True if it has been silent for some seconds.
    std::optional<std::string> leaving = {};   ///< Reason, if it leaves.
    std::vector<std::string> reached_by = {};  ///< Hosts that reach it while it is silent.
    std::optional<TimePoint> fails_at = {};    ///< Time when it fails, if it is still away.
    std::string silence_text = {};             ///< Reason then: "has not responded for 10.2 s".
  };

  /// `grace`: time that hosts that are away have to reconnect.
  HostTable(System& system, const Clock& clock, Nanoseconds grace, StateStore& store,
            ResourceAllocator& resources, EventLog& log, HostObserver& observer)
      : system_(system),
        clock_(clock),
        grace_(grace),
        store_(store),
        resources_(resources),
        log_(log),
        observer_(observer) {}
  HostTable(const HostTable&) = delete;
  HostTable& operator=(const HostTable&) = delete;

  /// Adds the hosts of the saved state. Throws Error.
  void read_rows();

  /// Registers `agent` as the agent of a host, or reconnects it, with these device processes.
  /// Throws kAlreadyExists if the name belongs to an agent that answers, kPeerDied if the agent
  /// disconnects meanwhile.
  task<JoinReply> join(ProcessRef agent, HostRegistration offer, AgentReport report);
  /// Marks the agent's host as leaving, with the reason `why`. Nothing new is placed there, and its
  /// agent ends once the devices are unused.
  void drain(ProcessId agent, const std::string& why);
  /// Removes the agent's host, which ends in good order. Its processes count as dead.
  void leave(ProcessId agent, const std::string& why);
  /// Removes a host whose agent has died. The agent's parent calls this; its evidence is better
  /// than a lost connection, and usually earlier. Ignored if the agent has no parent, or another
  /// pid than that of the evidence.
  void agent_died(const HostDeath& death);

  // Silence (host_silence.cc). These ignore processes that are no agents of hosts.
  /// Marks a host as suspect, or, if `silence_ns` is negative, as answering again. Two other hosts
  /// probe a suspect one.
  task<void> suspected(ProcessId agent, std::int64_t silence_ns);
  /// Marks a silent host as away and fails it, 10 s later if other hosts reach it.
  void timed_out(ProcessId agent, std::int64_t silence_ns);
  /// Handles a lost connection. If `cut_off`, the agent may live, and the host is away. Else the
  /// host is removed.
  void disconnected(ProcessId agent, bool cut_off);
  /// Fails and removes hosts that were away for too long. Called periodically.
  void expire();
  /// Announces that all hosts end because the cluster stops: their ends are no failures from now
  /// on.
  void expect_ends() { ends_expected_ = true; }

  /// Returns a host; null if it has not joined.
  const Host* find(const std::string& name) const;
  /// Returns the host of an agent; null if the process is no agent of a host.
  const Host* of_agent(ProcessId agent) const;
  /// Returns the name of an agent's host; empty if the process is no agent of a host.
  std::string name_of_host(ProcessId agent) const;
  /// Returns all hosts by name.
  const std::map<std::string, Host>& all() const { return hosts_; }
  bool any_away() const;
  /// Returns some ranks of a mesh by host. Leaves out hosts that do not answer. `places`: devices
  /// by rank.
  std::map<std::string, std::vector<std::uint32_t>> group_by_host(
      const std::vector<HostDevice>& places, const std::set<std::uint32_t>& ranks) const;
  /// Returns lines about removed hosts that the mesh could have used.
  std::string removed_hosts_note(const MeshRequest& request) const;
  std::vector<Member> members() const;
  /// Returns the hosts for `weft status`, with unused devices.
  std::vector<HostStatus> statuses() const;

 private:
  void save(const Host& host);
  Host* find_by_agent(ProcessId agent);
  bool is_connected(ProcessId process) const;
  /// Returns whether another agent holds the name of a host and answers the head. False if it is
  /// away or has ended meanwhile.
  task<bool> holder_answers(std::string name, ProcessId caller);
  /// Returns the other agent that holds the name of a host, does not answer, and may live. Empty if
  /// there is none.
  std::optional<NameHolder> holder_of(const HostRegistration& offer, ProcessId caller) const;
  /// Throws kFailedPrecondition if one of two hosts is on loopback and the other is not: they could
  /// not reach each other. `address`: address of the joining host's agent.
  void check_reachable(const std::string& name, const std::string& address) const;
  /// Adds a host, or marks it as answering if it has this agent already.
  void admit(const HostRegistration& offer, const ProcessRef& agent);
  /// Removes a host. `why`: "died: SIGKILL", "has left", "has not responded for 10.2 s: ...".
  void remove(std::string name, const ExitReport& evidence, const std::string& why);
  void forget_removed(const std::string& name);
  /// Returns up to two other hosts that answer the head.
  std::vector<ProcessRef> probers_of(const Host& host) const;
  /// Returns the names of the probers whose pings an agent answers.
  task<std::vector<std::string>> probe(ProcessRef agent, std::vector<ProcessRef> probers);
  /// Marks a host as away: it does not answer, and may live. Nothing new is placed there.
  void set_away(Host& host, const std::string& why);
  void fail_silent(Host& host);

  System& system_;
  const Clock& clock_;
  const Nanoseconds grace_;
  StateStore& store_;
  ResourceAllocator& resources_;
  EventLog& log_;
  HostObserver& observer_;
  std::map<std::string, Host> hosts_;
  // Last removed hosts: name, reason.
  std::vector<std::pair<std::string, std::string>> removed_hosts_;
  bool ends_expected_ = false;
};

}  // namespace weft::actors

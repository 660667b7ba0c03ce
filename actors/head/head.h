#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/call/future.h"
#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/head/cluster_messages.h"
#include "actors/head/cluster_rows.h"
#include "actors/head/device_allocator.h"
#include "actors/head/run_history.h"
#include "actors/head/state_store.h"
#include "actors/net/address.h"
#include "actors/supervision/incident.h"
#include "actors/system/context.h"
#include "core/base/clock.h"

namespace weft::actors {

struct HeadConfig {
  Address address;  ///< Address at which this process listens.
  std::filesystem::path state_directory;
  /// Grace period for hosts and owners that do not answer, and for a missing head.
  Nanoseconds grace = std::chrono::seconds(60);
  /// True: hosts, owners and meshes of the saved state do not live any more, and are ignored.
  bool ignore_saved_members = false;
  /// True if the head ends with its machine, as the cluster of `weft run`. It never syncs its state
  /// then.
  bool ephemeral = false;
};

struct HeadEvents {
  std::function<void(const ClusterEvent&)> on_event;       ///< Called with each event, to log it.
  std::function<void(const std::string&)> on_warning;      ///< Called with warnings, to log them.
  std::function<void(const std::string& reason)> on_stop;  ///< Called when the process should end.
  /// Replaces the cluster's token. `members` may still prove the former one for a while.
  std::function<TokenRotation(const std::vector<ProcessId>& members)> rotate_token = {};
};

/// Head of a cluster. Records which hosts have joined, where each mesh is, who owns it, and what
/// has happened to it.
///
/// One per cluster, hosted by the head's main under the name "head". Takes no part in data
/// transfers and calls between actors. Called by agents (join, process_died), owners
/// (register_owner, spawn, release), parents of agents (host_died) and observers.
///
/// The state is on disk: after the head's death, a head of the next term continues with it. Hosts
/// and owners are away until they reconnect, and are removed after HeadConfig::grace. The same
/// holds after a lost connection, unless they are known to have ended.
class Head final {
 public:
  Head(Context& context, HeadConfig config, HeadEvents events);

  /// Registers the caller as the agent of a host, or reconnects it, with these device processes.
  /// Throws kAlreadyExists if the name belongs to an agent that answers, kPeerDied if the caller
  /// disconnects meanwhile.
  task<JoinReply> join(HostRegistration offer, AgentReport devices);
  /// Marks the caller's host as leaving, with the reason `why`. Nothing new is placed there, and
  /// its agent ends once the devices are unused. Owners of meshes there are told; they save, and
  /// call release_leaving_host().
  void drain_host(const std::string& why);
  /// Fails the calling owner's processes on a leaving `host`.
  void release_leaving_host(const std::string& host);
  /// Removes the caller's host, whose agent ends in good order. Its processes count as dead.
  void leave(const std::string& why);
  /// Registers the caller as an owner of meshes, which end with it. If it reconnects, it keeps the
  /// meshes that the offer lists.
  JoinReply register_owner(OwnerRegistration offer);
  /// Places a mesh, starts its device processes and waits until they can be called. The caller must
  /// be an owner. Throws what DeviceAllocator::find_devices() and Agent::launch() throw, or
  /// kUnavailable if devices may become free by themselves. Leaves nothing behind then.
  task<MeshProcesses> spawn(MeshRequest request);
  /// Begins the next epoch of a mesh. Living processes continue in it, each where it is. New ones
  /// replace the dead, on devices of the same hosts or of spares. Ranks without a device are
  /// missing in the result; the call can be repeated. Processes on hosts that do not answer keep
  /// their devices until they are known to have ended. Throws kNotFound if the caller has no such
  /// mesh.
  task<RenewedMesh> renew(MeshRenewal renewal);
  /// Ends a mesh's processes. Returns when all are reaped and its devices are free. Does nothing if
  /// there is no such mesh. Throws kFailedPrecondition if the caller does not own it.
  task<void> release(MeshKey key);
  /// Records what the devices of a mesh are. Ignored unless the caller owns the mesh.
  void set_device_descriptions(MeshDevices devices);
  /// Records how far an owner's run is. Kept in memory only; the last report counts.
  void report_progress(RunProgress progress);
  /// Records that a process of a mesh has died. Ignored unless the caller is its agent, or owns the
  /// mesh.
  void process_died(const DeathReport& report);
  /// Removes the dead driver of a run, which will not be started again. Called by its `weft run`.
  void driver_given_up(const std::string& run);
  /// Removes a host whose agent has died. Called by the agent's parent, whose evidence is better
  /// than a lost connection, and usually earlier. Ignored if the agent has no parent, or another
  /// pid than that of the evidence.
  void host_died(HostDeath death);
  ClusterStatus status();

  // Methods for owners that place and replace their meshes (places.cc).
  DeviceSnapshot device_snapshot() const;
  /// Waits until DeviceSnapshot::version differs from `seen`, or for `within_ns`. Returns the
  /// version.
  task<std::uint64_t> wait_for_change(std::uint64_t seen, std::int64_t within_ns);
  /// Returns whether a process of these meshes is known not to run. Asks the agents.
  task<bool> has_dead_process(std::vector<MeshKey> keys);

  // Introspection, and ends of runs (introspection.cc).
  /// Records what the caller's run is. Called by an owner.
  void describe_run(RunDescription description);
  /// Records how the caller's run ends. Called by an owner.
  void run_ended(const RunResult& end);
  std::vector<Member> members();
  /// Returns the running runs and the last ones that have ended, by number. Only running ones have
  /// devices.
  std::vector<RunRecord> runs();
  /// Returns a run. Throws kNotFound.
  RunRecord run(std::uint64_t number);
  /// Asks the agent of submission.host to start a run. Returns the number of its record. Throws
  /// what Agent::start_run() throws, and kUnavailable if that host does not answer or has not
  /// joined.
  task<std::uint64_t> submit(RunSubmission submission);
  /// Records how an owner has ended, which it told the calling agent because it reached no head.
  void report_owner_exit(const OwnerExit& end);
  /// Records that a detached run of the calling agent has ended. Ignored for runs of other hosts.
  void detached_ended(const DetachedRunExit& end);
  ClusterEvents events(const EventsRequest& request);
  /// Reads logs on their hosts, `max_bytes` at most of each. Returns pieces in the order of
  /// `requests`.
  task<std::vector<LogPiece>> read_logs(std::vector<LogRequest> requests, std::uint32_t max_bytes);
  /// Asks the driver of a run to end: after its step, with a checkpoint, or at once if `now`.
  /// Returns what it says that it does. Throws kNotFound, kFailedPrecondition if the run has ended,
  /// and kUnavailable if neither its driver nor the agent that started it answers.
  task<std::string> cancel_run(std::uint64_t number, bool now);

  /// Returns the texts of incidents since the head started, oldest first.
  std::vector<std::string> incidents();
  /// Marks a host as suspect, or, if `silence_ns` is negative, as answering again. Two other hosts
  /// probe a suspect one. For the head's own process.
  task<void> peer_suspected(ProcessId peer, std::int64_t silence_ns);
  /// Marks a silent host as away and fails its meshes, 10 s later if other hosts reach it. For the
  /// head's own process.
  void peer_timed_out(ProcessId peer, std::int64_t silence_ns);
  /// Handles a lost connection to a host, an owner or an observer. If `cut_off`, the peer may live.
  /// For the head's own process.
  void peer_disconnected(ProcessId peer, bool cut_off);
  /// Removes hosts and owners that were away for too long. Called periodically by the head's own
  /// process.
  void expire_silent_peers();
  /// Completes the end of a mesh. Frees its devices when each host has confirmed that the processes
  /// have ended, or was removed. Called by the head itself.
  task<void> finish_release(MeshKey key);
  /// Records that a peer was refused, and why. For the head's own process.
  void record_refusal(const std::string& text);
  /// Makes a new token and sends it to the members of the cluster. Others need it from now on.
  TokenRotation rotate_token();
  /// Stops the cluster. Runs end as by Ctrl-C, with a checkpoint, within kRunsEndWithin; with `now`
  /// they are not asked. Then owners are told, hosts end with all their processes, and the head
  /// ends.
  task<void> stop(std::string reason, bool now);
  static constexpr Nanoseconds kRunsEndWithin = std::chrono::seconds(25);

  static constexpr auto endpoints = interface<"weft.head", 3>(
      on<&Head::join>("join", urgent), on<&Head::leave>("leave", urgent),
      on<&Head::drain_host>("drain_host", urgent),
      on<&Head::release_leaving_host>("release_leaving_host", urgent),
      on<&Head::register_owner>("register_owner", urgent), on<&Head::spawn>("spawn"),
      on<&Head::renew>("renew"), on<&Head::release>("release", urgent),
      on<&Head::set_device_descriptions>("set_device_descriptions", urgent),
      on<&Head::report_progress>("report_progress", urgent),
      on<&Head::process_died>("process_died", urgent), on<&Head::host_died>("host_died", urgent),
      on<&Head::status>("status", urgent), on<&Head::incidents>("incidents", urgent),
      on<&Head::peer_suspected>("peer_suspected", urgent),
      on<&Head::peer_timed_out>("peer_timed_out", urgent),
      on<&Head::peer_disconnected>("peer_disconnected", urgent),
      on<&Head::expire_silent_peers>("expire_silent_peers", urgent),
      on<&Head::finish_release>("finish_release", urgent),
      on<&Head::record_refusal>("record_refusal", urgent),
      on<&Head::rotate_token>("rotate_token", urgent), on<&Head::stop>("stop", urgent),
      on<&Head::describe_run>("describe_run", urgent),
      on<&Head::driver_given_up>("driver_given_up", urgent),
      on<&Head::run_ended>("run_ended", urgent), on<&Head::runs>("runs", urgent),
      on<&Head::run>("run", urgent), on<&Head::members>("members", urgent),
      on<&Head::submit>("submit", urgent), on<&Head::detached_ended>("detached_ended", urgent),
      on<&Head::read_logs>("read_logs", urgent), on<&Head::events>("events", urgent),
      on<&Head::cancel_run>("cancel_run", urgent),
      on<&Head::device_snapshot>("device_snapshot", urgent),
      on<&Head::wait_for_change>("wait_for_change", urgent),
      on<&Head::has_dead_process>("has_dead_process", urgent),
      on<&Head::report_owner_exit>("report_owner_exit", urgent));

 private:
  struct Host : HostRow {
    TimePoint joined;
    std::optional<TimePoint> away_since = {};
    bool suspect = false;
    std::optional<std::string> leaving = {};   // Reason, if it leaves.
    std::vector<std::string> reached_by = {};  // Hosts that reach it while it is suspect or away.
    std::optional<TimePoint> meshes_fail_at =
        {};                         // Time when its meshes fail, if it is still away.
    std::string silence_text = {};  // Reason then: "has not responded for 10.2 s".
  };
  struct Owner : OwnerRow {
    // Grows with each register_owner(). Requests of earlier registrations have no receiver.
    std::uint64_t registration_count = 0;
    std::optional<TimePoint> away_since = {};
    bool awaits_restart = false;  // True if it has died, and its next driver is awaited.
    std::optional<RunProgress> progress = {};
    TimePoint progress_at = {};  // Time of `progress`.
  };
  /// Part of a mesh that a host has been told to end.
  struct PendingStop {
    std::string host;
    ProcessRef agent;
    std::optional<Future<void>> reply;      // Set while the call is under way.
    MeshKey key;                            // Key under which the host knows it.
    std::vector<std::uint32_t> ranks = {};  // Empty: all.
  };
  struct Mesh : MeshRow {
    bool failed = false;                // Failed, or nobody waits for an orderly end.
    bool renewing = false;              // True while renew() runs.
    bool release_started = false;       // True once finish_release() is called.
    std::vector<PendingStop> stopping;  // Parts to end, for finish_release().
    std::vector<Wakeup> waiters;        // Calls that wait for its end; each is notified once.
  };

  // Put rows into the store, which writes them with the next event.
  void save(const Host& host);
  void save(const Owner& owner);
  void save(const MeshKey& key, const Mesh& mesh);
  /// Reads hosts, owners and meshes from the store. Throws Error(kDataLoss).
  void read_rows();
  void read_all_rows();
  /// Returns whether another agent holds the name of a host and answers the head. False if it is
  /// away or has ended meanwhile.
  task<bool> holder_answers(std::string name, ProcessId caller);
  bool is_connected(ProcessId process) const;
  void close_owner(const OwnerExit& end);
  /// Notifies calls of wait_for_change() if something has changed.
  void notify_change_waiters();
  std::uint64_t places_version() const;
  /// Returns the other agent that holds the name of a host, does not answer, and may live. Empty if
  /// there is none.
  std::optional<NameHolder> holder_of(const HostRegistration& offer, ProcessId caller) const;
  /// Throws kFailedPrecondition if one of two hosts is on loopback and the other is not: they could
  /// not reach each other. `address`: address of the joining host's agent.
  void check_reachable(const std::string& name, const std::string& address) const;
  static bool has_process(const Mesh& mesh, std::uint32_t rank, const DeviceProcess& process);
  /// Ends processes that a host runs and no mesh of the head has. Their devices stay taken until
  /// they have ended.
  void stop_unknown_processes(const HostRegistration& offer, const MeshKey& key,
                              const std::map<std::uint32_t, DeviceProcess>& strangers);
  /// Corrects the records of a host by what its agent says that it runs.
  void reconcile(const HostRegistration& offer, const AgentReport& devices);
  /// Marks a host as away: it does not answer, and may live. Nothing new is placed there.
  void set_away(Host& host, const std::string& why);
  /// Returns up to two other hosts that answer the head.
  std::vector<ProcessRef> probers_of(const Host& host) const;
  void fail_silent(Host& host);
  /// Fails the ranks that meshes have on a host.
  void fail_meshes_on(const Host& host, const ExitReport& evidence, const std::string& note);
  // Owners (owners.cc).
  /// Handles a lost connection to an owner. One that is cut off is away. The meshes of one that has
  /// ended wait for its next driver, or end.
  void owner_lost(ProcessId peer, bool cut_off);
  void expire_owners();
  void remove_owner(ProcessId peer, const std::string& how);
  void replace_former_drivers(const std::string& run, ProcessId next);
  /// Returns whether devices may become free by themselves: something is away or ending.
  bool waits_for_devices() const;

  /// Throws Error(kFailedPrecondition) if `owner` may not own a mesh, Error(kInvalidArgument) for a
  /// name or a shape that no mesh can have.
  void check_request(const MeshRequest& request, ProcessId owner) const;
  /// Returns the launch request of each host of a mesh.
  std::map<std::string, LaunchRequest> launches_of(const MeshKey& key, const Mesh& mesh) const;
  /// Starts all of them, by host; the hosts of one machine take turns. Throws the first error, once
  /// all launches that had begun have ended.
  task<std::vector<DeviceProcess>> launch(std::map<std::string, LaunchRequest> launches);
  /// Returns why a mesh whose processes have all started is unusable after all, or nothing.
  std::optional<Error> start_failure(const MeshKey& key) const;
  void forget_removed(const std::string& name);
  /// Returns lines about removed hosts that the mesh could have used.
  std::string removed_hosts_note(const MeshRequest& request) const;
  /// Returns `wanted`, or "run quickstart#2" if another owner has that name.
  std::string free_name(const std::string& wanted) const;
  std::string actor_label(const MeshRequest& request, std::uint32_t rank) const;
  Host* host_of(ProcessId agent);
  /// Throws Error(kInvalidArgument) if another process has made the current call.
  void check_called_locally() const;
  /// Removes a host and fails its meshes. `why`: "died: SIGKILL", "has left", "has not responded
  /// for 10.2 s: ...".
  void remove_host(const std::string& name, const ExitReport& evidence, const std::string& why);
  /// Records the death of a rank and tells the owner. `local_log`: its log lies on this machine,
  /// and is read if the evidence has none.
  void fail(const MeshKey& key, Mesh& mesh, std::uint32_t rank, const ExitReport& evidence,
            const std::string& host_failure, bool local_log);
  /// Tells the owner, if it is connected, that its mesh has failed.
  void notify_mesh_failed(const Mesh& mesh);
  /// Tells an owner that has reconnected that the head has no record of its mesh, if so.
  void notify_unknown_mesh(const ProcessRef& owner, const MeshKey& key);
  /// Tells the owner that the host leaves, if the owner has a process there.
  void notify_host_leaving(const Owner& owner, const Host& host);
  /// Tells an agent to end some ranks of a mesh. No ranks: all.
  Future<void> stop_ranks_on(const ProcessRef& agent, const MeshKey& key, bool failed,
                             const std::vector<std::uint32_t>& ranks = {});
  // Steps of renew().
  MeshKey begin_epoch(const MeshRenewal& renewal, Mesh& before);
  task<void> adopt_ranks(MeshKey from, MeshKey to);
  task<void> free_dead(MeshKey from, MeshKey to);
  task<std::optional<Error>> start_missing(MeshKey key);
  RenewedMesh renewed(const MeshKey& key, std::string problem) const;
  /// Returns some ranks of a mesh by host. Leaves out hosts that do not answer.
  std::map<std::string, std::vector<std::uint32_t>> ranks_by_host(
      const Mesh& mesh, const std::set<std::uint32_t>& ranks) const;
  /// Tells the hosts of a mesh to end its processes, unless that has begun.
  void begin_release(const MeshKey& key, Mesh& mesh);
  /// Tells a host to end its part until it confirms, or is removed. `problem`: result of the first
  /// try.
  task<void> finish_stop(const MeshKey& key, bool failed, PendingStop& stopping,
                         std::string problem);
  /// Waits for the call under way. Returns why the host has not ended its part, or "".
  static task<std::string> wait_for_stop(PendingStop& stopping);
  /// Frees the devices of an ending mesh on all hosts but those that have not confirmed.
  void free_confirmed(const MeshKey& key, Mesh& mesh, const std::set<std::string>& silent);
  /// Adds the processes of a mesh to the record of its run.
  void record_devices(const MeshKey& key, const Mesh& mesh);
  /// Closes runs whose driver is no owner any more and has reported no end.
  void close_unreported_runs(const std::string& how);
  /// Asks all runs to end as by Ctrl-C. Waits until they have ended, for kRunsEndWithin at most.
  task<void> end_runs();
  std::optional<RunProgress> progress_of(ProcessId owner) const;
  /// Records an event and logs it; never throws. Call it after those who wait are notified.
  /// `logged`: text for the log, if it says more than the record.
  void event(std::string text, const std::string& logged = {});

  Context& context_;
  const HeadConfig config_;
  const HeadEvents events_;
  // Calls of wait_for_change(); each is notified once.
  std::map<std::uint64_t, Wakeup> change_waiters_;
  std::uint64_t next_waiter_ = 0;
  std::uint64_t notified_change_ = 0;
  bool stop_begun_ = false;  ///< True after stop() is called; it may still wait for runs.
  bool stopping_ = false;    ///< True when processes end because they were told to.
  const SteadyClock clock_;
  const TimePoint started_;
  StateStore store_;
  DeviceAllocator allocator_;
  RunHistory runs_;
  IncidentLog incidents_;
  std::map<std::string, Host> hosts_;
  // Last removed hosts: name, reason.
  std::vector<std::pair<std::string, std::string>> removed_hosts_;
  std::map<ProcessId, Owner> owners_;
  std::map<MeshKey, Mesh> meshes_;
};

}  // namespace weft::actors

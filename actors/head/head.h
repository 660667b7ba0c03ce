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
#include "actors/head/placement.h"
#include "actors/head/run_book.h"
#include "actors/head/state_store.h"
#include "actors/net/address.h"
#include "actors/supervision/incident.h"
#include "actors/system/context.h"
#include "core/base/clock.h"

namespace weft::actors {

struct HeadConfig {
  Address address;  ///< where this process listens
  std::filesystem::path state_directory;
  /// How long who does not answer may be away, hosts and owners, and how long they look for a head.
  Nanoseconds grace = std::chrono::seconds(60);
  /// What the state knows of hosts and meshes does not count: nothing of it lives.
  bool begins_anew = false;
  /// The head ends with its machine, as the cluster of `weft run` does: its state is never synced.
  bool ends_with_machine = false;
};

struct HeadEvents {
  std::function<void(const ClusterEvent&)> on_event;       ///< for the log
  std::function<void(const std::string&)> on_warning;      ///< for the log
  std::function<void(const std::string& reason)> on_stop;  ///< the process should end now
  /// Replaces the cluster's token; `members` may still prove the former one for a while.
  std::function<RotatedToken(const std::vector<ProcessId>& members)> rotate_token = {};
};

/// The head of a cluster: who has joined, which mesh is where, who owns it, and what has happened
/// to it.
///
/// One per cluster, hosted by the head's main under the name "head". Never on the data path, and
/// never in a call between actors. Calls come from agents (join, process_died), owners (own, spawn,
/// release), parents of agents (host_died) and observers.
///
/// What it knows is written down: after its death a head of the next term goes on with it. Hosts
/// and owners are away until they say that they are here, and gone after HeadConfig::grace. So are
/// those whose connection is lost, unless it is known that they have ended.
class Head final {
 public:
  Head(Context& context, HeadConfig config, HeadEvents events);

  /// The caller is the agent of a host from here on, or is here again, with these device processes.
  /// Throws kAlreadyExists where the agent that has the name answers.
  task<Joined> join(HostOffer offer, HostedDevices devices);
  /// From an agent that ends when nobody uses its devices any more, and why. Nothing new is placed
  /// on its host. Owners of meshes there are told: they save, and say let_go().
  void drain(const std::string& why);
  /// From an owner: of its meshes, what lies on this host, which leaves, is lost from here on.
  void let_go(const std::string& host);
  /// From an agent that ends in good order, and why. What runs on its host fails.
  void leave(const std::string& why);
  /// The caller owns meshes from here on: they end when it does. Here again, it keeps those that it
  /// names.
  Joined own(OwnerOffer offer);
  /// Places the mesh, starts its device processes and waits until they can be called. The caller
  /// must be an owner. Throws what Placement::find_places and Agent::launch throw, kUnavailable
  /// where devices may become free by themselves; then nothing is left behind.
  task<MeshProcesses> spawn(MeshRequest request);
  /// The next epoch of a mesh: its processes that live go on in it, each where it is, and others
  /// take the place of those that are dead, on devices of the same hosts or of spares. Where there
  /// are none, they are missing in what it gives, and it can be asked again. Processes of hosts
  /// that do not answer keep their devices until they are known to be gone. Throws kNotFound where
  /// the caller has no such mesh.
  task<RenewedMesh> renew(MeshRenewal renewal);
  /// Ends the mesh's processes; its devices are free when all of them are reaped, which is when
  /// this answers.
  task<void> release(MeshKey key);
  /// From the owner of a mesh: what its devices are.
  void describe(MeshDevices devices);
  /// From an owner: how far it is. Kept in memory; the last one counts.
  void progress(RunProgress progress);
  /// From an agent: a process of a mesh is gone.
  void process_died(const DeathReport& report);
  /// From the `weft run` of a driver that has died: it is not started again.
  void driver_given_up(const std::string& run);
  /// From the parent of an agent: the agent is gone. Better evidence than the lost connection, and
  /// usually earlier.
  void host_died(HostDeath death);
  ClusterStatus status();

  // For owners that place and replace their meshes (places.cc).
  ClusterPlaces places() const;
  /// Waits until ClusterPlaces::version differs from `seen`, or for a while. Returns the version.
  task<std::uint64_t> next_change(std::uint64_t seen, std::int64_t within_ns);
  /// Returns whether a process of these meshes is known not to run. Asks the agents.
  task<bool> lacks_process(std::vector<MeshKey> keys);

  // Seeing what goes on (introspection.cc).
  /// From an owner: what it is, and how it ends.
  void describe_run(RunDescription description);
  void run_ended(const RunEnd& end);
  std::vector<Member> members();
  /// Those that run and the last ones that have ended, by number; the devices of those that run.
  std::vector<RunRecord> runs();
  /// Throws kNotFound.
  RunRecord run(std::uint64_t number);
  /// Leaves a run to the agent of its host; the number of its record. Throws what
  /// Agent::start_run() throws, and kUnavailable where that host is not here.
  task<std::uint64_t> submit(RunSubmission submission);
  /// From an agent: a program that owned meshes has told it how it ends, as no head heard it.
  void owner_ended(const OwnerEnd& end);
  /// From an agent: a run that it had started has ended.
  void detached_ended(const DetachedEnd& end);
  ClusterEvents events(const EventsRequest& request);
  /// Pieces of logs from the hosts that have them, of `max_bytes` at most each, in this order.
  task<std::vector<LogPiece>> read_logs(std::vector<LogRequest> requests, std::uint32_t max_bytes);
  /// Has the driver of a run end: after its step, with a checkpoint, or at once. What it says that
  /// it is doing. Throws kNotFound, kFailedPrecondition for one that has ended, and kUnavailable
  /// where its driver does not answer.
  task<std::string> cancel_run(std::uint64_t number, bool now);

  /// Texts of what has gone wrong since the head started, oldest first.
  std::vector<std::string> incidents();
  /// From the head's own process: a peer is suspect, or, with a negative time, not any more. Two
  /// other hosts look for one that is.
  task<void> peer_quiet(ProcessId peer, std::int64_t silence_ns);
  /// From the head's own process: nothing has come from a process for so long; peer_lost() follows.
  void peer_silent(ProcessId peer, std::int64_t silence_ns);
  /// From the head's own process: a connection is gone, of a host, of an owner, or of somebody who
  /// only looked. Whoever is `cut_off` may live.
  void peer_lost(ProcessId peer, bool cut_off);
  /// From the head's own process, now and then: who was away for too long is gone.
  void look();
  /// From the head itself: sees the end of a mesh through. Its devices are free when each host
  /// has said that the processes are gone, or is gone itself.
  task<void> finish_release(MeshKey key);
  /// From the head's own process: somebody was refused, and why.
  void refused(const std::string& text);
  /// Makes a new token. Who belongs to the cluster is given it; strangers need it from now on.
  RotatedToken rotate_token();
  /// Ends the cluster: runs end as Ctrl-C ends them, with a checkpoint, within kRunsEndWithin; with
  /// `now` they are not asked. Then owners are told, hosts end with all their processes, and the
  /// head does.
  task<void> stop(std::string reason, bool now);
  static constexpr Nanoseconds kRunsEndWithin = std::chrono::seconds(25);

  static constexpr auto endpoints = interface<"weft.head", 3>(
      on<&Head::join>("join", urgent), on<&Head::leave>("leave", urgent),
      on<&Head::drain>("drain", urgent), on<&Head::let_go>("let_go", urgent),
      on<&Head::own>("own", urgent), on<&Head::spawn>("spawn"), on<&Head::renew>("renew"),
      on<&Head::release>("release", urgent), on<&Head::describe>("describe", urgent),
      on<&Head::progress>("progress", urgent), on<&Head::process_died>("process_died", urgent),
      on<&Head::host_died>("host_died", urgent), on<&Head::status>("status", urgent),
      on<&Head::incidents>("incidents", urgent), on<&Head::peer_quiet>("peer_quiet", urgent),
      on<&Head::peer_silent>("peer_silent", urgent), on<&Head::peer_lost>("peer_lost", urgent),
      on<&Head::look>("look", urgent), on<&Head::finish_release>("finish_release", urgent),
      on<&Head::refused>("refused", urgent), on<&Head::rotate_token>("rotate_token", urgent),
      on<&Head::stop>("stop", urgent), on<&Head::describe_run>("describe_run", urgent),
      on<&Head::driver_given_up>("driver_given_up", urgent),
      on<&Head::run_ended>("run_ended", urgent), on<&Head::runs>("runs", urgent),
      on<&Head::run>("run", urgent), on<&Head::members>("members", urgent),
      on<&Head::submit>("submit", urgent), on<&Head::detached_ended>("detached_ended", urgent),
      on<&Head::read_logs>("read_logs", urgent), on<&Head::events>("events", urgent),
      on<&Head::cancel_run>("cancel_run", urgent), on<&Head::places>("places", urgent),
      on<&Head::next_change>("next_change", urgent),
      on<&Head::lacks_process>("lacks_process", urgent),
      on<&Head::owner_ended>("owner_ended", urgent));

 private:
  struct Host : HostRow {
    TimePoint joined;
    std::optional<TimePoint> away_since = {};
    bool suspect = false;
    std::optional<std::string> leaving = {};   // why
    std::vector<std::string> reached_by = {};  // hosts that it answers, while it is suspect or away
    std::optional<TimePoint> fails_at = {};    // with its meshes, if it is still away
    std::string silence = {};                  // then: "has been silent for 10.2 s"
  };
  struct Owner : OwnerRow {
    std::uint64_t visit = 0;  // grows with each own(): what was asked for before has no listener
    std::optional<TimePoint> away_since = {};
    bool dead = false;  // then: and its next driver is to come
    std::optional<RunProgress> progress = {};
    TimePoint told = {};  // the progress
  };
  /// A host that has been told to end its part of a mesh.
  struct Stopping {
    std::string host;
    ProcessRef agent;
    std::optional<Future<void>> ended;      // of the call under way
    MeshKey key;                            // as the host knows it
    std::vector<std::uint32_t> ranks = {};  // none: all
  };
  struct Mesh : MeshRow {
    bool failed = false;             // or nobody is left to wait for an orderly end
    bool renewing = false;           // by renew(), which has not answered yet
    bool watched = false;            // its end, by finish_release()
    std::vector<Stopping> stopping;  // then
    std::vector<Wakeup> waiters;     // for its end; each is notified once
  };

  // What is known of the cluster goes to the store with the next event.
  void save(const Host& host);
  void save(const Owner& owner);
  void save(const MeshKey& key, const Mesh& mesh);
  /// Throws Error(kDataLoss).
  void read_rows();
  void read_all_rows();
  /// Whether the agent that has the name of a host answers the head, which does not count it as
  /// away; false where it has ended meanwhile, or where nobody has the name.
  task<bool> holder_answers(std::string name, ProcessId caller);
  void end_owner(const OwnerEnd& end);
  /// Wakes those that wait for a change, if there was one.
  void tell_change();
  std::uint64_t places_version() const;
  /// This agent holds the name of a host, does not answer, and may live; or nobody does.
  std::optional<HeldName> holder_of(const HostOffer& offer, ProcessId caller) const;
  /// Throws kFailedPrecondition if one of two hosts is on loopback and the other is not: they could
  /// not reach each other. `address`: of the agent of a host that joins.
  void check_reachable(const std::string& name, const std::string& address) const;
  static bool has_process(const Mesh& mesh, std::uint32_t rank, const DeviceProcess& process);
  /// A host runs these, and no mesh of the head has them: they end, and their devices stay taken
  /// until they have.
  void end_strangers(const HostOffer& offer, const MeshKey& key,
                     const std::map<std::uint32_t, DeviceProcess>& strangers);
  /// What its agent says that it runs, and what the head believes, become one.
  void reconcile(const HostOffer& offer, const HostedDevices& devices);
  /// It does not answer, and may live; nothing new is placed there.
  void set_away(Host& host, const std::string& why);
  /// Up to two other hosts that answer the head.
  std::vector<ProcessRef> probers_of(const Host& host) const;
  void fail_silent(Host& host);
  /// Its meshes cannot be counted on.
  void fail_meshes_on(const Host& host, const ExitEvidence& evidence, const std::string& note);
  // Owners (owners.cc).
  /// Its connection is gone: it is away, or it has ended, and what it has waits for its next
  /// driver, or ends.
  void owner_lost(ProcessId peer, bool cut_off);
  void remove_gone_owners();
  void remove_owner(ProcessId peer, const std::string& how);
  void remove_drivers_before(const std::string& run, ProcessId next);
  /// Devices may become free without anybody's doing.
  bool waits_for_devices() const;

  /// Throws Error(kFailedPrecondition) when `owner` may not own a mesh, Error(kInvalidArgument) for
  /// a name or a shape that no mesh can have.
  void check_request(const MeshRequest& request, ProcessId owner) const;
  /// What each host has to start for a mesh.
  std::map<std::string, LaunchRequest> launches_of(const MeshKey& key, const Mesh& mesh) const;
  /// Has all of them started, by host, those of one machine in turns. Throws the first error, when
  /// what had begun has ended.
  task<std::vector<DeviceProcess>> launch(std::map<std::string, LaunchRequest> launches);
  /// Why a mesh whose processes have all started cannot be used after all.
  std::optional<Error> lost_while_starting(const MeshKey& key) const;
  void forget_gone(const std::string& name);
  /// Lines for a mesh that has no place: what could have been one.
  std::string gone_note(const MeshRequest& request) const;
  /// As wanted, or where another owner has that name "run quickstart#2".
  std::string free_name(const std::string& wanted) const;
  std::string actor_label(const MeshRequest& request, std::uint32_t rank) const;
  Host* host_of(ProcessId agent);
  /// Throws Error(kInvalidArgument) where another process has made the call that runs.
  void check_own_call() const;
  /// `why`: "died: SIGKILL", "has left", "has been silent for 10.2 s: ...".
  void remove_host(const std::string& name, const ExitEvidence& evidence, const std::string& why);
  /// `local_log`: the log lies on this machine, and may be read here when the evidence has none.
  void fail(const MeshKey& key, Mesh& mesh, std::uint32_t rank, const ExitEvidence& evidence,
            const std::string& host_note, bool local_log);
  /// That its mesh has failed, if it is here.
  void tell_owner(const Mesh& mesh);
  /// A program that is back has a mesh of which there is nothing.
  void tell_forgotten(const ProcessRef& owner, const MeshKey& key);
  /// Tells the owner that the host leaves, if the owner has a process there.
  void tell_leaving(const Owner& owner, const Host& host);
  /// No ranks: all.
  Future<void> stop_on(const ProcessRef& agent, const MeshKey& key, bool failed,
                       const std::vector<std::uint32_t>& ranks = {});
  // The parts of renew().
  MeshKey begin_epoch(const MeshRenewal& renewal, Mesh& before);
  task<void> take_over(MeshKey from, MeshKey to);
  task<void> free_dead(MeshKey from, MeshKey to);
  task<std::optional<Error>> start_missing(MeshKey key);
  RenewedMesh renewed(const MeshKey& key, std::string problem) const;
  /// Hosts that answer, each with its ranks of a mesh, of these.
  std::map<std::string, std::vector<std::uint32_t>> by_host(
      const Mesh& mesh, const std::set<std::uint32_t>& ranks) const;
  /// Tells its hosts to end its processes, unless that has begun.
  void begin_release(const MeshKey& key, Mesh& mesh);
  /// Waits until a host has ended its part, or is gone.
  task<void> finish_stop(const MeshKey& key, bool failed, Stopping& stopping, std::string problem);
  /// Until a host has answered the call under way; why it has not ended its part, or nothing.
  static task<std::string> wait_for_stop(Stopping& stopping);
  /// What a mesh that ends has had on hosts that have said that it has ended there.
  void free_all_but(const MeshKey& key, Mesh& mesh, const std::set<std::string>& silent);
  /// The processes of a mesh are those of its run from here on.
  void note_devices(const MeshKey& key, const Mesh& mesh);
  /// Whose driver is no owner any more, and nobody has said so.
  void close_lost_runs(const std::string& how);
  /// Has all runs end as Ctrl-C ends them; until they have, or kRunsEndWithin.
  task<void> end_runs();
  std::optional<RunProgress> progress_of(ProcessId owner) const;
  /// For the log and the books; never throws. Comes last: first those are told who wait.
  /// `logged`: the text for the log, where it says more than the books keep.
  void event(std::string text, const std::string& logged = {});

  Context& context_;
  const HeadConfig config_;
  const HeadEvents events_;
  std::map<std::uint64_t, Wakeup> change_waiters_;  // each is notified once
  std::uint64_t next_waiter_ = 0;
  std::uint64_t told_change_ = 0;
  bool stop_begun_ = false;  ///< by stop(), which may still wait for runs
  bool stopping_ = false;    ///< processes end because they were told to
  const SteadyClock clock_;
  const TimePoint started_;
  StateStore store_;
  Placement placement_;
  RunBook runs_;
  IncidentBook book_;
  std::map<std::string, Host> hosts_;
  std::vector<std::pair<std::string, std::string>> gone_hosts_;  // the last ones: name, why
  std::map<ProcessId, Owner> owners_;
  std::map<MeshKey, Mesh> meshes_;
};

}  // namespace weft::actors

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
#include "actors/head/placement.h"
#include "actors/head/state_store.h"
#include "actors/net/address.h"
#include "actors/supervision/incident.h"
#include "actors/system/context.h"
#include "core/base/clock.h"

namespace weft::actors {

struct HeadConfig {
  Address address;  ///< where this process listens
  std::filesystem::path state_directory;
};

struct HeadEvents {
  std::function<void(const ClusterEvent&)> on_event;       ///< for the log
  std::function<void(const std::string&)> on_warning;      ///< for the log
  std::function<void(const std::string& reason)> on_stop;  ///< the process should end now
};

/// The head of a cluster: who has joined, which mesh is where, who owns it, and what has happened
/// to it.
///
/// One per cluster, hosted by the head's main under the name "head". Never on the data path, and
/// never in a call between actors. Calls come from agents (join, process_died), owners (own, spawn,
/// release), parents of agents (host_died) and observers.
class Head final {
 public:
  Head(Context& context, HeadConfig config, HeadEvents events);

  /// The caller is the agent of a host from here on. Throws kAlreadyExists for a name that is
  /// taken.
  Joined join(HostOffer offer);
  /// From an agent that ends in good order, and why. What runs on its host fails.
  void leave(const std::string& why);
  /// The caller owns meshes from here on: they end when it does.
  Joined own(OwnerOffer offer);
  /// Places the mesh, starts its device processes and waits until they can be called. The caller
  /// must be an owner. Throws what Placement::take and Agent::launch throw; then nothing is left
  /// behind.
  task<MeshProcesses> spawn(MeshRequest request);
  /// Ends the mesh's processes; its devices are free when all of them are reaped, which is when
  /// this answers.
  task<void> release(MeshKey key);
  /// From the owner of a mesh: what its devices are.
  void describe(MeshDevices devices);
  /// From an owner: how far it is. Kept in memory; the last one counts.
  void progress(RunProgress progress);
  /// From an agent: a process of a mesh is gone.
  void process_died(const DeathReport& report);
  /// From the parent of an agent: the agent is gone. Better evidence than the lost connection, and
  /// usually earlier.
  void host_died(HostDeath death);
  ClusterStatus status();
  /// Texts of what has gone wrong since the head started, oldest first.
  std::vector<std::string> incidents();
  /// From the head's own process: nothing has come from a process for so long; peer_lost() follows.
  void peer_silent(ProcessId peer, std::int64_t silence_ns);
  /// From the head's own process: a connection is gone, of a host, of an owner, or of somebody who
  /// only looked.
  task<void> peer_lost(ProcessId peer);
  /// From the head itself: sees the end of meshes through. Their devices are free when each host
  /// has said that the processes are gone, or is gone itself.
  task<void> finish_release(std::vector<MeshKey> keys);
  /// Ends the cluster: owners are told, hosts end with all their processes, then the head does.
  task<void> stop(std::string reason);

  static constexpr auto endpoints = interface<"weft.head", 1>(
      on<&Head::join>("join", urgent), on<&Head::leave>("leave", urgent),
      on<&Head::own>("own", urgent), on<&Head::spawn>("spawn"),
      on<&Head::release>("release", urgent), on<&Head::describe>("describe", urgent),
      on<&Head::progress>("progress", urgent), on<&Head::process_died>("process_died", urgent),
      on<&Head::host_died>("host_died", urgent), on<&Head::status>("status", urgent),
      on<&Head::incidents>("incidents", urgent), on<&Head::peer_silent>("peer_silent", urgent),
      on<&Head::peer_lost>("peer_lost", urgent),
      on<&Head::finish_release>("finish_release", urgent), on<&Head::stop>("stop", urgent));

 private:
  struct Host {
    HostOffer offer;
    ProcessRef agent;
    TimePoint joined;
  };
  struct Owner {
    OwnerOffer offer;
    ProcessRef process;
    std::optional<RunProgress> progress = {};
    TimePoint told = {};  // the progress
  };
  /// A host that has been told to end its part of a mesh.
  struct Stopping {
    std::string host;
    ProcessRef agent;
    Future<void> ended;
  };
  struct Mesh {
    MeshRequest request;
    ProcessId owner;
    std::vector<HostDevice> places;
    std::set<std::uint32_t> lost;  // ranks whose host is gone; another of its name may have joined
    std::vector<DeviceProcess> processes;  // empty while it starts
    std::vector<std::string> devices;      // by rank, what they are; empty until the owner says so
    bool failed = false;
    bool ending = false;             // nobody's any more: only its devices are still taken
    std::vector<Stopping> stopping;  // once it is ending
    std::vector<Wakeup> waiters;     // for its end; each is notified once
  };

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
  /// As wanted, or where another owner has that name "run quickstart#2".
  std::string free_name(const std::string& wanted) const;
  std::string actor_label(const MeshRequest& request, std::uint32_t rank) const;
  /// Removes the host whose agent is gone, or has been silent for so long; false: the peer is no
  /// agent.
  bool lose_agent(ProcessId peer, std::optional<Nanoseconds> silence);
  /// Throws Error(kInvalidArgument) where another process has made the call that runs.
  void check_own_call() const;
  /// `why`: "died: SIGKILL", "has left", "has been silent for 10.2 s: ...".
  void remove_host(const std::string& name, const ExitEvidence& evidence, const std::string& why);
  /// `local_log`: the log lies on this machine, and may be read here when the evidence has none.
  void fail(const MeshKey& key, const Mesh& mesh, std::uint32_t rank, const ExitEvidence& evidence,
            const std::string& host_note, bool local_log);
  Future<void> stop_on(const ProcessRef& agent, const MeshKey& key, bool failed);
  /// Tells its hosts to end its processes.
  void begin_release(const MeshKey& key, Mesh& mesh);
  /// Waits until a host has ended its part, or is gone.
  task<void> finish_stop(const MeshKey& key, bool failed, Stopping& stopping);
  /// Waits until these are released; whoever asked may give up before.
  task<void> release_all(std::vector<MeshKey> keys);
  /// For the log and the books; never throws. Comes last: first those are told who wait.
  void event(std::string text);

  Context& context_;
  const HeadConfig config_;
  const HeadEvents events_;
  bool stopping_ = false;  ///< stop() has begun: processes end because they were told to
  const SteadyClock clock_;
  const TimePoint started_;
  StateStore store_;
  Placement placement_;
  IncidentBook book_;
  std::map<std::string, Host> hosts_;
  std::map<ProcessId, Owner> owners_;
  std::map<MeshKey, Mesh> meshes_;
};

}  // namespace weft::actors

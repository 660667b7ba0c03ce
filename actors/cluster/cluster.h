#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/blocking_work.h"
#include "actors/cluster/child_actors.h"
#include "actors/cluster/context_spawn.h"
#include "actors/cluster/data_networks.h"
#include "actors/cluster/failure_record.h"
#include "actors/cluster/head_link.h"
#include "actors/cluster/held_reservations.h"
#include "actors/cluster/leaving_hosts.h"
#include "actors/cluster/mesh_registry.h"
#include "actors/cluster/mesh_supervisor.h"
#include "actors/cluster/operator_reports.h"
#include "actors/cluster/published_actors.h"
#include "actors/cluster/repeated_stops.h"
#include "actors/cluster/reservation.h"
#include "actors/cluster/revocable_target.h"
#include "actors/cluster/run_events.h"
#include "actors/cluster/spawn_options.h"
#include "actors/cluster/spawner.h"
#include "actors/head/cluster_messages.h"
#include "actors/head/head_notifications.h"
#include "actors/head/run_messages.h"
#include "actors/net/address.h"
#include "actors/system/system.h"

namespace weft::actors {

struct ClusterOptions {
  std::string name = "driver";  ///< shown in the head's list of owners
  /// Executable of the processes of actors, with and without devices, as a path on the hosts;
  /// empty: that of this process.
  std::string binary;
  std::vector<std::string> environment;  ///< "KEY=VALUE" for all these processes
  std::uint64_t memory_cap = 0;          ///< limit of each of them, in bytes; 0: none
  /// See also FailureRecord::survive_deaths().
  FailureScope failure_scope = FailureScope::kAllMeshes;
  /// Called when a mesh fails, and by report(), on the thread that learns of it. May be empty.
  std::function<void(const RunEvent&)> on_event = {};
  /// Called once when the head or the cluster is lost, on a thread of the system. May be empty.
  std::function<void(const Error&)> on_lost = {};
  /// Description of the run for `weft runs`.
  RunDescription description = {};
  /// True for the owner of the actors that outlive runs; see Keeper.
  bool is_keeper = false;
  /// Called when an operator stops actors of a name that this owner has not published, on a thread
  /// that may block. Throws Error(kNotFound) if there are no such actors. Empty: the operator's
  /// request fails with kNotFound.
  std::function<void(const std::string& name)> on_stop_unpublished = {};
  /// Called by `weft cancel`: ends this program like an interruption, or at once. Returns a text
  /// for the operator: the work left before the end. Must not block. Empty: the program cannot be
  /// cancelled.
  std::function<std::string(bool now)> on_cancel = {};
  /// Network interface that the run file names for a host's tensors, by host.
  std::map<std::string, std::string> interfaces = {};
};

/// Connection of a driver to a cluster's head, through which it spawns, finds and stops actors.
///
/// Owned by the driver, made after the System it uses (which has not connected yet; one Cluster per
/// System) and destroyed before it. Its ActorMesh, OwnedActor and Reservation objects must not
/// outlive it. Meshes end with it, but those with Lifetime::kCluster; after a crash the next driver
/// of `weft run` takes them over. While the head is away, running work continues, and new requests
/// wait. Any thread. For users: actors/docs/actors.md.
class Cluster final {
 public:
  // For drivers.

  /// Connects to the head. Throws Error(kUnavailable) if there is none at that address.
  Cluster(System& system, const Address& head, ClusterOptions options = {});
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  System& system() { return system_; }
  ClusterStatus status();

  /// Blocks until hosts of these names (none named: `at_least` hosts) have joined. Throws
  /// Error(kDeadlineExceeded) that names the missing hosts.
  void wait_for_hosts(const std::vector<std::string>& names, std::size_t at_least,
                      Nanoseconds within);

  /// Spawns an actor T per rank, constructed with (Context&, args...): in a process with a device
  /// each if they need devices, else as SpawnOptions::process says.
  ///   auto trainers = cluster.spawn<Trainer>(
  ///       "front", {{"data", 1}, {"tensor", 2}},
  ///       {.place = {.hosts = {"worker0"}}, .needs = {.devices = 1}}, config);
  /// The actors, and the processes that they do not share, end when the ActorMesh is destroyed. In
  /// a driver that was started again, a supervised mesh (SpawnOptions::supervised()) is the one
  /// that its predecessor left, with its state. Live actors of it ignore `args`; lost ones are
  /// restarted; if the policy restarts none, all are new.
  ///
  /// Blocks until all actors are constructed. Does not wait for resources. Throws the error of a
  /// constructor; Error(kAlreadyExists) if the name is taken; kResourceExhausted, with a table of
  /// hosts, if there is no room; kNotFound if a host of `options.place` has not joined;
  /// kUnavailable if a host or the head is away, or resources may become free by themselves;
  /// kFailedPrecondition if the reservation was released or its bundles are too small;
  /// kInvalidArgument for a wrong name, shape or option.
  template <typename T, typename... Args>
  ActorMesh<T> spawn(const std::string& name, const MeshShape& shape, const SpawnOptions& options,
                     Args&&... args) {
    MeshKey ignored;
    return spawn<T>(ignored, name, shape, options, std::forward<Args>(args)...);
  }
  /// Like spawn(), for one actor.
  template <typename T, typename... Args>
  OwnedActor<T> spawn(const std::string& name, const SpawnOptions& options, Args&&... args) {
    return OwnedActor<T>(spawn<T>(name, MeshShape(), options, std::forward<Args>(args)...));
  }

  /// Reserves bundles of resources, all or none, for meshes to come. Blocks up to `within` until
  /// others free them; kNoDeadline: ten years. `where`: hosts, labels and strategy; without a
  /// strategy pack() if a bundle has devices, else spread(). First come, first served; see
  /// Reservations. The reservation that the predecessor of a restarted driver left under that name
  /// is taken over if it has the same bundles. Throws Error(kResourceExhausted) at once, with the
  /// table of hosts, if the present hosts could not hold the bundles even without other users, or
  /// if 100 calls of this driver wait already; Error(kDeadlineExceeded) with the reason after
  /// `within`; Error(kUnavailable) if the head stays away for 60 s; Error(kAlreadyExists) if this
  /// driver has one of that name; Error(kNotFound) if a host has not joined;
  /// Error(kInvalidArgument) for an empty bundle, or none, or more than 1,000.
  ///   auto room = cluster.reserve("room", {{.devices = 1}, {.cpus = 2}}, spread());
  Reservation reserve(const std::string& name, std::vector<Resources> bundles,
                      const MeshPlacement& where = {},
                      Nanoseconds within = std::chrono::minutes(1));

  /// Stops the actors of a name that this object has spawned, after their children. Blocks until
  /// they have ended. Throws Error(kNotFound) if there are none.
  void stop_actors(const std::string& name);

  /// Finds an actor by name: "hits" of this run, "quickstart/hits" of another run. Blocks until it
  /// is there. Throws Error(kNotFound) after `within`, or at once if that is zero; see
  /// System::find().
  template <typename T>
  ActorRef<T> find(const std::string& name, Nanoseconds within = kDefaultDeadline) {
    return system_.find<T>(name, within).get();
  }
  /// Like find(), for all actors of a mesh.
  template <typename T>
  MeshRef<T> find_mesh(const std::string& name, Nanoseconds within = kDefaultDeadline) {
    return system_.find_mesh<T>(name, within).get();
  }

  /// Returns the hosts and their free devices.
  DeviceSnapshot places();

  /// Reports this driver's progress for `weft status`. One-way; call it once a second at most.
  void report_progress(const RunProgress& progress);

  /// Reports how this driver ends, for `weft runs`. The first report counts; without one, the
  /// destructor reports. Blocks until the head or the agents know, a second at most.
  void report_end(const RunResult& end);

  // For owners that recover meshes themselves (mesh/, recovery/).

  /// Returns this owner's meshes and their device processes.
  const MeshRegistry& meshes() const { return meshes_; }
  /// Returns the failures of this owner's meshes.
  FailureRecord& failures() { return failures_; }
  /// Returns the connection to the head.
  HeadLink& head() { return head_; }
  /// Returns the hosts that leave the cluster.
  LeavingHosts& leaving_hosts() { return leaving_; }

  /// Like spawn(), and returns the mesh's key for renew().
  template <typename T, typename... Args>
  ActorMesh<T> spawn(MeshKey& key, const std::string& name, const MeshShape& shape,
                     const SpawnOptions& options, Args&&... args) {
    SpawnedActors wanted{interface_version<T>(), name, shape,
                         internal::encode_constructor_arguments<T>(std::forward<Args>(args)...)};
    const SpawnResult spawned = spawn_or_find(key, std::move(wanted), options);
    if (spawned.other) return use_existing<T>(*spawned.other);
    ActorMesh<T> mesh(system_.handle_of<T>(spawned.own));
    mesh.on_stopping([this, own = key] { stopping(own); });
    mesh.on_stopped([this, own = key] { release_last(own); });
    return mesh;
  }
  /// Like spawn(), for a class of actors that only their processes know. The caller stops the
  /// actors, by their name. `child`: see ChildActors; 0 for others.
  SpawnedActors spawn_actors(MeshKey& key, SpawnedActors wanted, const SpawnOptions& options,
                             ChildActors::Id child = 0);

  /// Reserves a device for each rank of `meshes`, all or none, on the hosts of its mesh. Spares are
  /// for meshes whose own hosts have too few devices. Bundles are the ranks in the order of
  /// `meshes`. Blocks until others free the devices, and calls `goes_on` every 50 ms meanwhile.
  /// Throws what reserve() does, Error(kNotFound) if a host that a mesh lists has not joined and
  /// the others have too few devices, and Error(kCancelled) if `goes_on` returns false.
  Reservation reserve_meshes(std::vector<WantedMesh> meshes, std::vector<std::string> spares,
                             const std::function<bool()>& goes_on);
  /// Releases the mesh of that name that the predecessor of a restarted owner left, unless it was
  /// adopted, and the descendants of its actors. Waits for another thread that does so. Calls
  /// `before` first, if there is one; if that throws, the meshes stay inherited.
  void release_inherited(const std::string& name, const std::function<void()>& before = nullptr);

  /// Returns true if a process of this owner's meshes is known not to run. Asks the head, which
  /// asks the agents. Throws the errors of that call.
  bool has_dead_process();
  /// Blocks until DeviceSnapshot::version differs from `seen`, another failure is reported, `stop`
  /// is requested, or `within` has passed.
  void wait_for_change(std::uint64_t seen, Nanoseconds within, const std::stop_token& stop);
  /// Result of renew(): ranks with new processes, and ranks without a process, with the reason: no
  /// device is free, or a new process died meanwhile. renew() can be called again.
  struct RenewResult {
    std::set<std::uint32_t> fresh, missing;
    std::string problem;
    ErrorCode code = ErrorCode::kUnavailable;  ///< code of `problem`
  };
  /// Starts the next epoch of a mesh. Its live actors continue; other ranks get new processes, on
  /// the hosts of `where` (spares last), and actors constructed with `args`. `broken`: live ranks
  /// that are replaced, too. For meshes with devices. Throws the errors of Head::renew, and of the
  /// new actors; `key` is already the new one then.
  template <typename T, typename... Args>
  RenewResult renew(ActorMesh<T>& mesh, MeshKey& key, const MeshPlacement& where,
                    const std::set<std::uint32_t>& broken, Args&&... args) {
    Replaced replaced =
        replace(key, mesh.shape(), {.place = where, .needs = {.devices = 1}}, broken);
    key = replaced.key;
    mesh.on_stopping([this, key] { stopping(key); });
    mesh.on_stopped([this, key] { release_last(key); });
    publish(key, mesh);
    if (!replaced.renewed.missing.empty()) return std::move(replaced.renewed);
    const std::vector<ActorAddress> before = mesh.addresses();
    std::vector<ActorAddress> ended;
    for (std::size_t rank = 0; rank < replaced.processes.size(); ++rank)
      if (replaced.processes[rank].id != before[rank].process.id) {
        replaced.renewed.fresh.insert(static_cast<std::uint32_t>(rank));
        ended.push_back(before[rank]);
      }
    end_children(ended);
    mesh.renew(
        system_.respawn_mesh<T>(mesh.ref(), replaced.processes, std::forward<Args>(args)...));
    publish(key, mesh);
    return std::move(replaced.renewed);
  }

  /// Adopts, in a restarted driver, the mesh of that name and shape that its predecessor left.
  /// renew() then replaces dead processes. nullopt if there is none.
  template <typename T>
  std::optional<ActorMesh<T>> adopt_mesh(MeshKey& key, const std::string& name,
                                         const MeshShape& shape) {
    const auto left = adopt_processes(name, shape.size());
    if (!left) return std::nullopt;
    key = left->key;
    ActorMesh<T> mesh = system_.adopt_mesh<T>(name, shape, left->processes);
    mesh.on_stopping([this, key = left->key] { stopping(key); });
    mesh.on_stopped([this, key = left->key] { release_last(key); });
    publish(key, mesh);
    adopt_children(name, mesh.addresses());
    return mesh;
  }

  /// Returns the network interfaces for tensors between these hosts and this process; see
  /// DataNetworks. The driver's thread.
  DataInterfaces data_interfaces(const std::set<std::string>& hosts);
  /// Reports an observation about a device to the operator: a warning in the log, and
  /// ClusterOptions::on_event.
  void report(const std::string& kind, const MeshKey& mesh, std::uint32_t rank,
              const std::string& text) const;

  /// Describes the devices of a mesh, by rank, for `weft status`.
  void describe(const MeshKey& mesh, std::vector<std::string> devices);

  /// Reports the end of an agent, or of the head, as its parent saw it: better evidence than a lost
  /// connection.
  void report_host_death(const std::string& host, const ExitReport& evidence);
  void report_head_death(const ExitReport& evidence);

 private:
  struct Acquired {
    MeshKey key;
    std::vector<ProcessRef> processes;
  };
  template <typename T>
  void publish(const MeshKey& key, const ActorMesh<T>& mesh) {
    SpawnedActors actors{interface_version<T>(), mesh.name(), mesh.shape(), {}};
    for (ActorAddress& address : mesh.addresses())
      actors.addresses.push_back(std::make_shared<const ActorAddress>(std::move(address)));
    published_.publish(key, actors);
  }
  /// Actors of another owner, and the name by which any process finds them.
  struct OtherActors {
    std::string full_name;
    NamedActors actors;
  };
  /// New actors of this object, or actors of another owner: existing ones, or those of the cluster.
  struct SpawnResult {
    SpawnedActors own = {};
    std::optional<OtherActors> other = {};
  };
  /// Returns whether a mesh of that name that this owner has has failed.
  bool has_failed(const std::string& name) const;
  SpawnResult spawn_or_find(MeshKey& key, SpawnedActors wanted, const SpawnOptions& options,
                            ChildActors::Id child = 0);
  /// Returns the actors of a name, after waiting for them; nullopt if there are none. Throws
  /// Error(kFailedPrecondition) if their shape differs from `wanted`.
  std::optional<OtherActors> find_existing(const std::string& name, const SpawnedActors& wanted,
                                           Nanoseconds within);
  /// Asks the keeper to spawn actors.
  NamedActors keep(const SpawnedActors& wanted, const SpawnOptions& options);
  template <typename T>
  ActorMesh<T> use_existing(const OtherActors& other) {
    return ActorMesh<T>(internal::handle_of_found<T>(system_, other.actors),
                        [this, name = other.full_name] { request_stop(name); });
  }
  /// Asks the owner of a name to stop its actors. Blocks until the actors have ended.
  void request_stop(const std::string& name);
  Acquired acquire(const std::string& name, const MeshShape& shape, const SpawnOptions& options,
                   ChildActors::Id child = 0);
  /// Adopts the mesh of that name that a predecessor left. Returns nullopt if a new one has to be
  /// spawned: there is none, or it has lost actors and the policy restarts none.
  std::optional<SpawnedActors> adopt_left(MeshKey& key, const SpawnedActors& wanted,
                                          const SpawnOptions& options);
  /// Returns the ranks of a name that have ended, as the predecessor has told the head.
  std::set<std::uint32_t> ended_ranks(const std::string& name);
  std::optional<Acquired> adopt_processes(const std::string& name, std::int64_t size);
  struct Replaced {
    MeshKey key;
    std::vector<ProcessRef> processes;
    RenewResult renewed;
  };
  Replaced replace(const MeshKey& key, const MeshShape& shape, const SpawnOptions& options,
                   const std::set<std::uint32_t>& broken);
  /// `child`: see ChildActors; 0 for a mesh that runs, and for those that this object spawns
  /// itself.
  MeshRequest request_of(const std::string& name, const MeshShape& shape,
                         const SpawnOptions& options, ChildActors::Id child = 0) const;
  void release(const std::vector<MeshKey>& meshes);
  /// Returns the head, once it knows the names that this owner has published. Throws
  /// Error(kUnavailable) while the head is away.
  task<ProcessRef> head_with_names();
  /// Releases what this owner has dropped while the head registered it as held: the head was away
  /// for the release itself.
  void release_dropped();
  /// Releases the meshes that the predecessor left of descendants of the actors of a mesh.
  void release_inherited_children(const std::string& parent_mesh);
  /// Releases meshes of MeshRegistry::begin_release().
  void release_all_inherited(const std::vector<MeshProcesses>& left);
  Reservation reserve_bundles(ReservationRequest request, Nanoseconds within,
                              const std::function<bool()>& goes_on);
  void release_reservation(const MeshKey& key);
  /// Stops the actors of meshes that are left in shared processes; with epoch 0, those of all
  /// epochs. Blocks until they have ended, 10 seconds at most. Returns the stops that were not
  /// confirmed.
  std::vector<std::pair<ProcessRef, MeshKey>> stop_in_shared_processes(
      const std::vector<MeshProcesses>& meshes);
  /// Like stop_in_shared_processes(), and repeats later what was not confirmed.
  void end_in_shared_processes(const std::vector<MeshProcesses>& meshes);
  // Supervision (cluster_failures.cc).
  class Actions;
  std::unique_ptr<SupervisorActions> make_actions();
  /// Publishes the actors of a supervised mesh. Returns them with this process as their owner.
  /// `ended`: lost ranks that had ended before, and are not restarted. Call begin_restarts() next.
  SpawnedActors publish_supervised(const MeshKey& key, SpawnedActors actors,
                                   const std::set<std::uint32_t>& ended = {});
  /// Begins to restart the actors of a supervised mesh, at first those that are lost.
  void begin_restarts(const MeshKey& key, const SpawnedActors& actors);
  /// Reports the actors of an adopted mesh that are lost.
  MeshFailure lost_actors(const MeshKey& key, const SpawnedActors& actors) const;
  /// Releases the last epoch of a mesh that was spawned under this key.
  void release_last(const MeshKey& spawned);
  /// Ends restarts and children of a mesh that is about to be stopped.
  void stopping(const MeshKey& spawned);
  // Actors that actors spawn (cluster_children.cc). These functions block.
  ActorRef<Spawner> host_child_spawner();
  SpawnOptions child_options(const ChildSpawn& request);
  SpawnedChild spawn_child(const ChildSpawn& request, const std::stop_token& cancelled);
  /// Releases what the predecessor has left under the name of a child, unless another actor has
  /// spawned it. Returns whether one has.
  bool is_inherited_by_other(const ChildSpawn& request);
  /// Notes that children run. Returns false if they have to be stopped.
  bool finish_child(ChildActors::Id child, const NamedActors& actors);
  /// Stops children as their parent asks.
  void stop_child(const ChildStop& request);
  /// Stops actors, unless another thread has stopped them.
  void stop_child_actors(const std::string& name);
  /// Removes children that have ended, and tells the processes of their parents.
  void forget_children(const std::string& name);
  /// Returns whether all these actors have ended themselves, or are given up.
  bool have_ended(const NamedActors& actors) const;
  /// Stops the children of actors that end, in reverse order of their spawns.
  void end_children(const std::vector<ActorAddress>& parents);
  void end_children_of(const MeshKey& mesh);
  void end_all_children();
  /// Stops those of these children that still have to be stopped.
  void stop_ending(const std::vector<std::string>& names);
  /// Stops the children of the actors in ended_, and the processes of actors that are children
  /// themselves. Releases orphans_.
  void end_children_of_ended();
  /// Lets a thread release the meshes that the predecessor left without their parents.
  void release_orphans_later();
  void actor_exited(const ActorAddress& actor);
  /// Lets a thread call end_children_of_ended() for an actor; with kNoActor, for all actors of the
  /// process. Does not block.
  void end_children_later(const ActorAddress& parent);
  /// Tells the spawner of actors in ended_, until a thread has taken them.
  void tell_ended();
  /// Children of the actors of some processes.
  struct ListedChildren {
    std::vector<ChildSpawn> children;
    bool is_complete = true;  ///< False if a process did not answer.
  };
  ListedChildren children_in(const std::map<ProcessId, ProcessRef>& processes);
  /// Adopts the children of the adopted actors of a mesh. Releases other children of that mesh,
  /// whose parents have died.
  void adopt_children(const std::string& parent_mesh, const std::vector<ActorAddress>& parents);
  void adopt_child(const ChildSpawn& request);
  /// Fails a mesh that is not restarted again.
  void supervised_mesh_failed(const Incident& incident, const Error& error);
  void mesh_failed(const MeshFailure& failure);
  void lost(const Error& error);
  JoinReply register_driver(const ProcessRef& head);
  std::string cancelled(bool now);
  void host_leaves(const std::string& host, const std::string& why);
  /// Stops the actors of a name, as an operator asks.
  task<void> stop_published(Context& context, std::string name);
  /// Ends this object's actors, which call it.
  void end_own_actors();
  void head_away(const std::string& how);
  void head_back(const JoinReply& joined, Nanoseconds away);
  MeshProcesses spawn_processes(const MeshRequest& request, ChildActors::Id child);
  /// Reports the end to the agents, which end this owner's processes and tell the next head.
  void report_end_to_agents(const RunResult& end);
  void report_peer_loss(const ProcessRef& peer, const std::string& how);
  /// Returns whether the death of a process of a mesh concerns that mesh alone.
  bool fails_alone(const MeshKey& key) const;
  /// Handles the failure of a mesh that the supervisor restarts, or gives up.
  void supervised_processes_died(const MeshKey& key, const MeshFailure& failure);
  /// Returns the actors of a mesh, as last published; only those in `processes` if that is given.
  std::vector<ActorAddress> actors_of(const std::string& mesh,
                                      const std::vector<ProcessId>* processes) const;
  /// Records the loss of a process if it is a device of a mesh that this owner holds.
  void record_loss(ProcessId process);
  /// Reports a silent device process to the head, unless its agent does.
  void peer_timed_out(const ProcessRef& peer, Nanoseconds silence);
  void report_silent(ProcessId process, Nanoseconds silence);
  void fail_meshes(const Error& error, const MeshFailure* only);
  /// Fails the dead processes for good, and the pending calls of all others now.
  void fail_dead(const Error& error, const MeshFailure& failure);
  /// Throws the incident of `key` in place of `error`, if there is one or it arrives soon.
  [[noreturn]] void rethrow(const MeshKey& key, const Error& error);

  System& system_;
  const ClusterOptions options_;
  RevocableTarget<Cluster> ear_;
  ActorRef<HeadNotifications> watcher_;
  std::string binary_;
  std::string binary_sha256_;

  MeshRegistry meshes_;
  HeldReservations reservations_;
  FailureRecord failures_;
  OperatorReports reports_;
  std::atomic<bool> end_reported_ = false;
  // Used by the thread that registers this owner: what it has offered to keep.
  std::vector<MeshKey> offered_meshes_;
  std::vector<MeshKey> offered_reservations_;
  DataNetworks networks_;
  HeadLink head_;
  LeavingHosts leaving_;
  PublishedActors published_;
  ActorRef<Directory> directory_;
  RepeatedStops repeated_stops_;
  // Used by the threads of the members below.
  ChildActors children_;
  Mutex ended_mutex_;
  std::vector<ActorAddress> ended_;   // guarded: actors for end_children_of_ended()
  std::vector<std::string> orphans_;  // guarded: names of inherited meshes for the same
  bool ended_told_ = false;           // guarded: tell_ended() is called until there are none
  ActorRef<Spawner> spawner_;
  const std::unique_ptr<SupervisorActions> actions_;
  MeshSupervisor supervisor_;
  BlockingWork stops_;       // stop_published()
  BlockingWork child_work_;  // requests to spawner_
  // Declared last: enables the callbacks of the system.
  std::optional<RevocableTarget<Cluster>::Binding> binding_;
};

/// Returns the SHA-256 of this process's executable.
std::string own_binary_sha256();

}  // namespace weft::actors

#pragma once

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

#include "actors/head/cluster_messages.h"
#include "actors/head/head_notifications.h"
#include "actors/head/run_messages.h"
#include "actors/launch/data_networks.h"
#include "actors/launch/head_link.h"
#include "actors/launch/revocable_target.h"
#include "actors/launch/run_events.h"
#include "actors/net/address.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Placement of a mesh: its ranks fill the devices of these hosts in this order. No hosts: all, in
/// the order of joining.
struct MeshPlacement {
  std::vector<std::string> hosts;
  /// Environment of the device processes, "KEY=VALUE", added to the cluster's own.
  std::vector<std::string> environment = {};
  /// Device of each process that is to start, by rank; empty: the head chooses among `hosts`.
  std::vector<HostDevice> places = {};
};

struct ClusterOptions {
  std::string name = "driver";  ///< shown in the head's list of owners
  /// Executable of the device processes, as a path on the hosts; empty: that of this process.
  std::string binary;
  std::vector<std::string> environment;  ///< "KEY=VALUE" for all device processes
  std::uint64_t memory_cap = 0;          ///< limit of each device process, in bytes; 0: none
  /// Meshes that a dead process makes fail: all meshes of this owner, which a training step
  /// couples, or its own. See also Cluster::survive_deaths().
  enum class FailureScope { kAllMeshes, kOneMesh } failure_scope = FailureScope::kAllMeshes;
  /// Called when a mesh fails, and by report(), on the thread that learns of it. May be empty.
  std::function<void(const RunEvent&)> on_event = {};
  /// Called once when the head or the cluster is lost, on a thread of the system. May be empty.
  std::function<void(const Error&)> on_lost = {};
  /// Description of the run for `weft runs`.
  RunDescription description = {};
  /// Called by `weft cancel`: ends this program like an interruption, or at once, and returns what
  /// it does until then. Must not block. Empty: the program cannot be cancelled.
  std::function<std::string(bool now)> on_cancel = {};
  /// Network interface that the run file names for a host's tensors, by host.
  std::map<std::string, std::string> interfaces = {};
};

/// Connection of a driver to a cluster's head, through which it spawns meshes of actors on device
/// processes.
///
/// Owned by the driver, made after the System it uses (which has not connected yet; one Cluster per
/// System) and destroyed before it. Meshes end with it. While the head is away, running work
/// continues, and new requests wait. Any thread. A process that dies fails every call that waits
/// for it, with the incident as error: see actors/decisions.md.
class Cluster final {
 public:
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

  /// Starts one device process per rank, and an actor T in each, constructed with (Context&,
  /// args...).
  ///   auto trainers = cluster.spawn<Trainer>("front", {{"data", 1}, {"tensor", 2}},
  ///                                          MeshPlacement{{"worker0"}}, config);
  /// The actors and their processes end when the ActorMesh is destroyed. Throws the errors of
  /// Head::spawn.
  template <typename T, typename... Args>
  ActorMesh<T> spawn(const std::string& name, const MeshShape& shape, const MeshPlacement& where,
                     Args&&... args) {
    MeshKey ignored;
    return spawn<T>(ignored, name, shape, where, std::forward<Args>(args)...);
  }
  /// Like spawn(), and returns the mesh's key for renew().
  template <typename T, typename... Args>
  ActorMesh<T> spawn(MeshKey& key, const std::string& name, const MeshShape& shape,
                     const MeshPlacement& where, Args&&... args) {
    const Acquired acquired = acquire(name, shape, where);
    key = acquired.key;
    return guarded(acquired.key, [&] {
      ActorMesh<T> mesh =
          system_.spawn_mesh<T>(name, shape, acquired.processes, std::forward<Args>(args)...);
      mesh.on_stopped([this, key = acquired.key] { release(key); });
      return mesh;
    });
  }

  /// Lets the owner survive deaths from now on. Calls that wait for any process of its meshes fail
  /// with the incident, later calls reach the live processes, and renew() replaces the dead ones. A
  /// restarted driver survives deaths from the start.
  void survive_deaths();
  /// Keeps, from now on, the owner's devices on a host that leaves the cluster, until
  /// release_leaving_hosts() or the end of its agent's grace. `saves` asks the owner to save its
  /// state first, on a thread that must not block. Without this call the devices are let go at
  /// once.
  void on_hosts_leaving(std::function<void(const std::string& text)> saves);
  /// Releases devices on leaving hosts. Their data is lost from now on, as after a death.
  void release_leaving_hosts();
  /// Clears recorded failures before a recovery: failure() starts afresh. Throws the failure if the
  /// head or the cluster is lost, as nothing can be recovered then.
  void clear_failures();
  /// Returns the recorded failure in short: "worker1 device 0 died: SIGKILL", "worker1 died:
  /// SIGKILL"; the text of `error` if no process died.
  std::string root_cause(const Error& error) const;
  /// Returns the recorded incident; nullopt if no process died.
  std::optional<Incident> incident() const;
  /// Returns true if a process of this owner's meshes is known not to run. Asks the head, which
  /// asks the agents. Throws the errors of that call.
  bool has_dead_process();
  /// Returns the hosts and their free devices.
  DeviceSnapshot places();
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
  /// that are replaced, too. Throws the errors of Head::renew, and of the new actors; `key` is
  /// already the new one then.
  template <typename T, typename... Args>
  RenewResult renew(ActorMesh<T>& mesh, MeshKey& key, const MeshPlacement& where,
                    const std::set<std::uint32_t>& broken, Args&&... args) {
    Replaced replaced = replace(key, mesh.shape(), where, broken);
    key = replaced.key;
    mesh.on_stopped([this, key] { release(key); });
    if (!replaced.renewed.missing.empty()) return std::move(replaced.renewed);
    for (std::size_t rank = 0; rank < replaced.processes.size(); ++rank)
      if (replaced.processes[rank].id != mesh.addresses()[rank].process.id)
        replaced.renewed.fresh.insert(static_cast<std::uint32_t>(rank));
    mesh.renew(
        system_.respawn_mesh<T>(mesh.ref(), replaced.processes, std::forward<Args>(args)...));
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
    mesh.on_stopped([this, key = left->key] { release(key); });
    return mesh;
  }

  /// Returns the memory caps of a mesh's device processes, by rank.
  std::vector<MemoryCap> memory_caps_of(const MeshKey& mesh) const;
  /// Returns the devices of a mesh, by rank.
  std::vector<HostDevice> places_of(const MeshKey& mesh) const;
  /// Returns the network interfaces for tensors between these hosts and this process; see
  /// DataNetworks. The driver's thread.
  DataInterfaces data_interfaces(const std::set<std::string>& hosts);
  /// Returns the ranks for which the last renew() found no process.
  std::set<std::uint32_t> missing_ranks(const MeshKey& mesh) const;
  /// Returns "worker1 device 0 (pid 4121)".
  std::string describe_device(const MeshKey& mesh, std::uint32_t rank) const;
  /// Reports an observation about a device to the operator: a warning in the log, and
  /// ClusterOptions::on_event.
  void report(const std::string& kind, const MeshKey& mesh, std::uint32_t rank,
              const std::string& text) const;

  /// Describes the devices of a mesh, by rank, for `weft status`.
  void describe(const MeshKey& mesh, std::vector<std::string> devices);

  /// Reports this program's progress for `weft status`. One-way; call it once a second at most.
  void report_progress(const RunProgress& progress);

  /// Reports how this program ends, for `weft runs`. The first report counts; without one, the
  /// destructor reports. Blocks until the head or the agents know, a second at most.
  void report_end(const RunResult& end);

  /// Reports the end of an agent, or of the head, as its parent saw it: better evidence than a lost
  /// connection.
  void report_host_death(const std::string& host, const ExitReport& evidence);
  void report_head_death(const ExitReport& evidence);

  /// Returns the first failure since forgive(), if there is one or it occurs within a time: a
  /// symptom may precede its cause. If `within` is not 0, waits longer while a silent or lost
  /// device process is not yet explained by its agent.
  std::optional<Error> failure(Nanoseconds within = Nanoseconds::zero()) const;

 private:
  struct Acquired {
    MeshKey key;
    std::vector<ProcessRef> processes;
  };
  Acquired acquire(const std::string& name, const MeshShape& shape, const MeshPlacement& where);
  std::optional<Acquired> adopt_processes(const std::string& name, std::int64_t size);
  struct Replaced {
    MeshKey key;
    std::vector<ProcessRef> processes;
    RenewResult renewed;
  };
  Replaced replace(const MeshKey& key, const MeshShape& shape, const MeshPlacement& where,
                   const std::set<std::uint32_t>& broken);
  MeshRequest request_of(const std::string& name, const MeshShape& shape,
                         const MeshPlacement& where) const;
  void release(const MeshKey& key);
  void mesh_failed(const MeshFailure& failure);
  void lost(const Error& error);
  JoinReply register_driver(const ProcessRef& head);
  std::string cancelled(bool now);
  void host_leaves(const std::string& host, const std::string& why);
  /// Reports once what caps the device processes' memory.
  void log_memory_caps(const std::vector<DeviceProcess>& processes);
  void head_away(const std::string& how);
  void head_back(const JoinReply& joined, Nanoseconds away);
  void notify_operator(const std::string& kind, const std::string& text) const;
  /// Calls the head, and retries if the answer was lost with it, or the error may pass. `call`:
  /// R(head, number of its losses so far).
  template <typename R, typename Call>
  R ask(Nanoseconds within, const Call& call);
  /// Sends a one-way call, which is lost while the head is away.
  template <auto kMethod, typename Message>
  void notify_head(Message&& message) const {
    try {
      head_.head().template tell<kMethod>(std::forward<Message>(message));
    } catch (const Error&) {
      // The head has ended for good, which is reported elsewhere.
    }
  }
  MeshProcesses spawn_processes(const MeshRequest& request);
  void remember(const MeshKey& key, const std::vector<DeviceProcess>& processes);  // under mutex_
  /// Reports the end to the agents, which end this owner's processes and tell the next head.
  void report_end_to_agents(const RunResult& end);
  void report_peer_loss(const ProcessRef& peer, const std::string& how);
  /// Reports a silent device process to the head, unless its agent does.
  void peer_timed_out(const ProcessRef& peer, Nanoseconds silence);
  void report_silent(ProcessId process, Nanoseconds silence);
  bool is_device(ProcessId process) const;  ///< True in a mesh that has not failed. Under mutex_.
  void fail_meshes(const Error& error, const MeshFailure* only);
  /// Fails the dead processes for good, and the pending calls of all others now.
  void fail_dead(const Error& error, const MeshFailure& failure);
  /// Throws the incident of `key` in place of `error`, if there is one or it arrives soon.
  [[noreturn]] void rethrow(const MeshKey& key, const Error& error);

  template <typename F>
  auto guarded(const MeshKey& key, F&& make) {
    std::optional<Error> error;
    try {
      return make();
    } catch (const Error& thrown) {
      error = thrown;
    }
    rethrow(key, *error);
  }

  System& system_;
  const ClusterOptions options_;
  RevocableTarget<Cluster> ear_;
  ActorRef<HeadNotifications> watcher_;
  std::string binary_;
  std::string binary_sha256_;

  mutable Mutex mutex_;
  mutable Condition changed_;
  std::map<MeshKey, std::vector<DeviceProcess>> meshes_;  // guarded by mutex_
  std::map<std::string, MeshKey> inherited_;              // guarded by mutex_, by name
  std::map<MeshKey, Error> failed_;                       // guarded by mutex_
  std::optional<Error> first_failure_;                    // guarded by mutex_
  std::optional<Incident> first_incident_;                // guarded by mutex_: its incident
  std::map<std::string, ProcessRef> agents_;              // guarded by mutex_: of all meshes so far
  bool lost_ = false;                                     // guarded by mutex_
  bool caps_told_ = false;                                // guarded by mutex_
  bool survives_ = false;                                 // guarded by mutex_: survive_deaths()
  bool end_told_ = false;                                 // guarded by mutex_
  std::set<std::string> leaving_;                         // guarded by mutex_: hosts to let go
  std::function<void(const std::string&)> saves_;         // guarded by mutex_
  // guarded by mutex_: a device process is silent or lost, and no incident explains that
  bool unexplained_loss_ = false;
  DataNetworks networks_;
  HeadLink head_;
  // Declared last: enables the callbacks of the system.
  std::optional<RevocableTarget<Cluster>::Binding> binding_;
};

/// Returns the SHA-256 of this process's executable.
std::string own_binary_sha256();

}  // namespace weft::actors

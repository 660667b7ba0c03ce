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
#include "actors/head/cluster_watcher.h"
#include "actors/head/run_messages.h"
#include "actors/launch/data_networks.h"
#include "actors/launch/ear.h"
#include "actors/launch/head_link.h"
#include "actors/launch/run_events.h"
#include "actors/net/address.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Where a mesh goes: its ranks fill the devices of these hosts in this order. No hosts: all, in
/// the order of joining.
struct OnHosts {
  std::vector<std::string> hosts;
  /// "KEY=VALUE" for the device processes, besides the cluster's own
  std::vector<std::string> environment = {};
  /// By rank, the device of each process that is to start; empty: the head chooses among `hosts`.
  std::vector<HostDevice> places = {};
};

struct ClusterOptions {
  std::string name = "driver";  ///< in the head's list of owners
  /// executable of the device processes, as a path on the hosts; empty: this process's own
  std::string binary;
  std::vector<std::string> environment;  ///< "KEY=VALUE" for all device processes
  std::uint64_t memory_cap = 0;          ///< of each device process, in bytes; 0: none
  /// What one dead process takes with it: every mesh of this owner (a training step couples them
  /// all), or its own mesh. See also Cluster::survive_deaths().
  enum class FailureScope { kAllMeshes, kOneMesh } failure_scope = FailureScope::kAllMeshes;
  /// A mesh has failed, or what report() says; on the thread that learns of it. May be empty.
  std::function<void(const RunEvent&)> on_event = {};
  /// The head or the cluster is gone; called once, on some thread of the system. May be empty.
  std::function<void(const Error&)> on_lost = {};
  /// For `weft runs`.
  RunDescription description = {};
  /// `weft cancel`: ends this program as an interruption does, or at once, and says what it does
  /// until then. On a thread that must not wait. Empty: it cannot be cancelled.
  std::function<std::string(bool now)> on_cancel = {};
  /// Network interface that the run file names for a host's tensors, by host.
  std::map<std::string, std::string> interfaces = {};
};

/// A cluster as its user sees it: a connection to the head, through which meshes of actors are
/// spawned on device processes.
///
/// Owned by the driver, made after the System it uses (which has not connected yet; one Cluster per
/// System) and destroyed before it. Meshes end with it. A head that is gone is waited for: what
/// runs goes on meanwhile, what starts or asks waits. Any thread. A process that dies fails every
/// call that waits for it, with the incident as error: see reference in actors/decisions.md.
class Cluster final {
 public:
  /// Throws Error(kUnavailable) when there is no head at that address.
  Cluster(System& system, const Address& head, ClusterOptions options = {});
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  System& system() { return system_; }
  ClusterStatus status();

  /// Waits until hosts of these names have joined (none named: until `at_least` have). Throws
  /// Error(kDeadlineExceeded) naming the missing.
  void wait_for_hosts(const std::vector<std::string>& names, std::size_t at_least,
                      Nanoseconds within);

  /// Starts one device process per rank, and an actor T in each, constructed with (Context&,
  /// args...).
  ///   auto trainers = cluster.spawn<Trainer>("front", {{"data", 1}, {"tensor", 2}},
  ///                                          OnHosts{{"worker0"}}, config);
  /// The actors and their processes end when the ActorMesh is destroyed. Throws what Head::spawn
  /// throws.
  template <typename T, typename... Args>
  ActorMesh<T> spawn(const std::string& name, const MeshShape& shape, const OnHosts& where,
                     Args&&... args) {
    MeshKey ignored;
    return spawn<T>(ignored, name, shape, where, std::forward<Args>(args)...);
  }
  /// The same, for who renews it: gives its key.
  template <typename T, typename... Args>
  ActorMesh<T> spawn(MeshKey& key, const std::string& name, const MeshShape& shape,
                     const OnHosts& where, Args&&... args) {
    const Acquired acquired = acquire(name, shape, where);
    key = acquired.key;
    return guarded(acquired.key, [&] {
      ActorMesh<T> mesh =
          system_.spawn_mesh<T>(name, shape, acquired.processes, std::forward<Args>(args)...);
      mesh.on_stopped([this, key = acquired.key] { release(key); });
      return mesh;
    });
  }

  /// From here on a death takes no mesh with it: the calls that wait for any process of the owner's
  /// meshes fail with the incident, later ones reach those that live, and renew() replaces the
  /// others. For owners that do that; one that was started again does from the beginning.
  void survive_deaths();
  /// From here on, a host that leaves the cluster keeps this owner's devices until let_go(), or
  /// until its agent's grace ends. `saves` is called, and the owner saves its state first. Without
  /// this call the devices are let go at once. `saves`: on a thread that must not wait.
  void save_before_hosts_leave(std::function<void(const std::string& text)> saves);
  /// What lies on hosts that leave is lost from here on, as if it had died.
  void let_go();
  /// What has failed so far is about to be mended: failure() begins anew. Throws it where nothing
  /// can be mended, as the head or the cluster is gone.
  void forgive();
  /// What has failed last, in short: "worker1 device 0 died: SIGKILL", "worker1 died: SIGKILL";
  /// where no process has, the error itself.
  std::string what_died(const Error& error) const;
  /// What has failed last; nothing where no process has.
  std::optional<Incident> incident() const;
  /// Returns whether a process of this owner's meshes is known not to run. Asks the head, which
  /// asks the agents. Throws what the call of the head throws.
  bool lacks_process();
  /// Hosts, and which of their devices are free.
  ClusterPlaces places();
  /// Waits until ClusterPlaces::version differs from `seen`, another failure is told, `stop` is
  /// requested, or `within` is over.
  void wait_for_change(std::uint64_t seen, Nanoseconds within, const std::stop_token& stop);
  /// Ranks whose processes are of no use are missing after that, with the reason, where there are
  /// no devices for others, or those have died meanwhile: it can be asked again.
  struct Renewed {
    std::set<std::uint32_t> fresh, missing;
    std::string problem;
    ErrorCode code = ErrorCode::kUnavailable;  ///< of the problem
  };
  /// The next epoch of a mesh: its actors that live go on, other ranks get new processes, on the
  /// hosts of `where` (spares last), and actors constructed with `args`. `broken`: ranks that are
  /// to be replaced though they live. Throws what Head::renew throws, and what the new actors do;
  /// `key` is the new one also then.
  template <typename T, typename... Args>
  Renewed renew(ActorMesh<T>& mesh, MeshKey& key, const OnHosts& where,
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

  /// Of a driver that was started again: the mesh of that name and shape that the one before it has
  /// left, as it is; for renew(), which replaces what has died. Nothing where there is none.
  template <typename T>
  std::optional<ActorMesh<T>> take_over(MeshKey& key, const std::string& name,
                                        const MeshShape& shape) {
    const auto left = inherit(name, shape.size());
    if (!left) return std::nullopt;
    key = left->key;
    ActorMesh<T> mesh = system_.take_over_mesh<T>(name, shape, left->processes);
    mesh.on_stopped([this, key = left->key] { release(key); });
    return mesh;
  }

  /// The caps on the memory of the device processes of a mesh of this owner, by rank.
  std::vector<MemoryCap> memory_caps_of(const MeshKey& mesh) const;
  /// Where the ranks of a mesh of this owner lie.
  std::vector<HostDevice> places_of(const MeshKey& mesh) const;
  /// Network interfaces for tensors between these hosts and this process; see DataNetworks. The
  /// driver's thread.
  DataInterfaces data_interfaces(const std::set<std::string>& hosts);
  /// Ranks for which the last renew() found no process.
  std::set<std::uint32_t> missing_ranks(const MeshKey& mesh) const;
  /// "worker1 device 0 (pid 4121)".
  std::string whereabouts(const MeshKey& mesh, std::uint32_t rank) const;
  /// Tells the operator what the owner of a mesh has seen of a device: a warning in the log, and
  /// ClusterOptions::on_event.
  void report(const std::string& kind, const MeshKey& mesh, std::uint32_t rank,
              const std::string& text) const;

  /// For `weft status`: what the devices of a mesh are, by rank.
  void describe(const MeshKey& mesh, std::vector<std::string> devices);

  /// For `weft status`: how far this program is. Nobody waits for it; call it once a second at
  /// most.
  void report_progress(const RunProgress& progress);

  /// For `weft runs`: how this program ends. The first one counts; without one, the destructor says
  /// what it can. Waits until the head knows, half a second at most.
  void report_end(const RunEnd& end);

  /// What the parent of an agent, or of the head, knows about its end; better than a lost
  /// connection.
  void report_host_death(const std::string& host, const ExitEvidence& evidence);
  void report_head_death(const ExitEvidence& evidence);

  /// The first thing that went wrong, if anything has, or does so within a time: a symptom may be
  /// seen before its cause is told. With a time, waits longer where a device process is silent or
  /// gone and its agent, which knows more, has not told why.
  std::optional<Error> failure(Nanoseconds within = Nanoseconds::zero()) const;

 private:
  struct Acquired {
    MeshKey key;
    std::vector<ProcessRef> processes;
  };
  Acquired acquire(const std::string& name, const MeshShape& shape, const OnHosts& where);
  std::optional<Acquired> inherit(const std::string& name, std::int64_t size);
  struct Replaced {
    MeshKey key;
    std::vector<ProcessRef> processes;
    Renewed renewed;
  };
  Replaced replace(const MeshKey& key, const MeshShape& shape, const OnHosts& where,
                   const std::set<std::uint32_t>& broken);
  MeshRequest request_of(const std::string& name, const MeshShape& shape,
                         const OnHosts& where) const;
  void release(const MeshKey& key);
  void mesh_failed(const MeshFailure& failure);
  void lost(const Error& error);
  Joined own(const ProcessRef& head);
  std::string cancelled(bool now);
  void host_leaves(const std::string& host, const std::string& why);
  /// Once: what caps the device processes.
  void say_caps(const std::vector<DeviceProcess>& processes);
  void head_away(const std::string& how);
  void head_back(const Joined& joined, Nanoseconds away);
  void tell_operator(const std::string& kind, const std::string& text) const;
  /// Asks the head, and asks again where its answer was lost with it, or it says that it may pass.
  /// `call`: R(head, how often it was lost so far).
  template <typename R, typename Call>
  R ask(Nanoseconds within, const Call& call);
  /// Nobody waits for it, and where the head is away nobody hears of it.
  template <auto kMethod, typename Message>
  void tell_head(Message&& message) const {
    try {
      head_.head().template tell<kMethod>(std::forward<Message>(message));
    } catch (const Error&) {
      // It has ended for good, which is told elsewhere.
    }
  }
  MeshProcesses spawn_processes(const MeshRequest& request);
  void remember(const MeshKey& key, const std::vector<DeviceProcess>& processes);  // under mutex_
  /// Tells the agents, which end this owner's processes and tell the next head.
  void tell_agents(const RunEnd& end);
  void peer_gone(const ProcessRef& peer, const std::string& how);
  /// A device process that its agent says nothing of is silent here: the head is told.
  void peer_silent(const ProcessRef& peer, Nanoseconds silence);
  void report_silent(ProcessId process, Nanoseconds silence);
  bool is_device(ProcessId process) const;  ///< Of a mesh that has not failed. Under mutex_.
  void fail_meshes(const Error& error, const MeshFailure* only);
  /// The dead fail for good, what waits for others fails now.
  void fail_dead(const Error& error, const MeshFailure& failure);
  /// Throws the incident of `key` in place of `error`, if there is one or one comes soon.
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
  Ear<Cluster> ear_;
  ActorRef<ClusterWatcher> watcher_;
  std::string binary_;
  std::string binary_sha256_;

  mutable Mutex mutex_;
  mutable Condition changed_;
  std::map<MeshKey, std::vector<DeviceProcess>> meshes_;  // guarded by mutex_
  std::map<std::string, MeshKey> inherited_;              // guarded by mutex_: by name
  std::map<MeshKey, Error> failed_;                       // guarded by mutex_
  std::optional<Error> first_failure_;                    // guarded by mutex_
  std::optional<Incident> first_incident_;                // guarded by mutex_: that
  std::map<std::string, ProcessRef> agents_;              // guarded by mutex_: of all meshes so far
  bool lost_ = false;                                     // guarded by mutex_
  bool caps_told_ = false;                                // guarded by mutex_
  bool survives_ = false;                                 // guarded by mutex_: survive_deaths()
  bool end_told_ = false;                                 // guarded by mutex_
  std::set<std::string> leaving_;                         // guarded by mutex_: hosts, to be let go
  std::function<void(const std::string&)> saves_;         // guarded by mutex_
  // guarded by mutex_: a device process is silent or gone, and no incident has said why
  bool unexplained_ = false;
  DataNetworks networks_;
  HeadLink head_;
  // Last: callbacks of the system come as soon as it is there.
  std::optional<Ear<Cluster>::Open> open_;
};

/// SHA-256 of this process's executable.
std::string own_binary_sha256();

}  // namespace weft::actors

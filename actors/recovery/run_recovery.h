#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/cluster/cluster.h"
#include "actors/cluster/reservation.h"
#include "actors/head/run_placement.h"
#include "actors/launch/cluster_config.h"
#include "actors/supervision/restart_budget.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/tensor/mesh_shape.h"

namespace weft::actors {

/// Interface between RunRecovery and the owner of a run's meshes. Started meshes come first.
class RunMeshes {
 public:
  virtual ~RunMeshes() = default;
  using Wanted = WantedMesh;
  virtual std::vector<Wanted> wanted() const = 0;
  /// Returns the keys of the started meshes.
  virtual std::vector<MeshKey> keys() const = 0;
  /// Returns the ranks that do not answer, by started mesh. May wait for answers.
  virtual std::vector<std::set<std::uint32_t>> find_broken() = 0;
  /// Starts the next mesh at `where`. Throws what Cluster::spawn() does.
  virtual void start_next(const MeshPlacement& where) = 0;
  /// Replaces the processes of `broken`. Throws what Cluster::renew() does.
  virtual Cluster::RenewResult renew(std::size_t mesh, const MeshPlacement& where,
                                     const std::set<std::uint32_t>& broken) = 0;
  /// Forgets this mesh, which the head does not know any more, and all after it.
  virtual void drop_from(std::size_t mesh) = 0;
};

struct RunRecoveryOptions {
  RecoveryConfig config = {};
  /// Hosts that had joined when the run began. A failed start counts as a death if one is missing.
  std::vector<std::string> hosts = {};
  std::string restart_budget_path = {};  ///< See AppRun::restarts.
  /// True: also recover from failed calls between living processes, by new connections.
  bool reconnect_on_failed_calls = false;
  /// Longest time between a symptom and the report of the death that caused it.
  Nanoseconds cause_timeout = std::chrono::milliseconds(500);
  /// Called with the reason while the run waits for devices: after 2 s, then every 30 s. May be
  /// empty.
  std::function<void(const std::string&)> on_wait = {};
  std::stop_token stop = {};  ///< Ends a wait for devices with Error(kCancelled).
};

/// Recovery of a run whose processes die: decides whether the run continues, counts restarts, and
/// places meshes on the devices that are left.
///
/// One per run. Serves all meshes of the run, also one after the other, and remembers which hosts
/// replace lost ones. Owned by the driver; one thread at a time.
class RunRecovery final {
 public:
  /// Calls FailureRecord::survive_deaths() if any restart is allowed.
  RunRecovery(Cluster& cluster, RunRecoveryOptions options);

  bool allowed() const { return options_.config.restarts > 0; }
  /// Reserves the devices of all meshes together, waiting until others free them, and starts the
  /// meshes there. Throws what Cluster::reserve_meshes() and Cluster::spawn() do; recover() may
  /// follow.
  void start(RunMeshes& meshes);
  /// Replaces dead processes of the former driver's meshes, and starts missing meshes. For a driver
  /// that was started again; counts no further restart.
  void adopt(RunMeshes& meshes);

  /// Returns whether to call recover() for `error`. Asks the cluster whether a process of this run
  /// has died; the error's code alone never proves it. Errors that a program reports while all
  /// processes live are final.
  bool recovers_from(const Error& error) const;
  struct RestartReport {
    std::string cause = {};   ///< "worker1 device 0 died: SIGKILL"
    std::size_t restart = 0;  ///< Number of this restart.
    std::size_t most = 0;     ///< Restarts allowed.
  };
  /// Counts the death, replaces dead processes, and calls `connect`. Repeats that after another
  /// death. Call after recovers_from(). Throws Error(kFailedPrecondition) with all causes if no
  /// restart is left or the same fault repeats, Error(kCancelled) on `stop`,
  /// Error(kResourceExhausted) if devices lack and recovery.if_too_few is fail, and final errors of
  /// launches and of `connect`.
  RestartReport recover(const Error& why, RunMeshes& meshes, const std::function<void()>& connect);
  /// Records that the run has finished a step. Faults before and after it are not repetitions.
  void step_done() { budget_.step_done(); }

 private:
  /// Result of try_to_replace().
  struct ReplacementAttempt {
    std::string problem;        ///< Empty: every rank has a process.
    std::uint64_t version = 0;  ///< DeviceSnapshot::version that the attempt saw.
    Nanoseconds retry_after{};  ///< Time to the next attempt if hosts do not change.
  };
  /// Counts a death and returns the number of its restart. Throws if no restart is left.
  std::size_t record_death(const RestartBudget::Death& death);
  RestartBudget::Death death_of(const Error& error) const;
  Reservation reserve(const RunMeshes& meshes) const;
  /// Returns why the meshes that are to be placed wait for devices.
  std::string wait_reason(const std::vector<MeshToPlace>& wanted) const;
  void replace(RunMeshes& meshes);
  ReplacementAttempt try_to_replace(RunMeshes& meshes);
  std::vector<MeshToPlace> to_place(const RunMeshes& meshes,
                                    std::vector<std::set<std::uint32_t>> broken) const;
  std::optional<std::string> place(RunMeshes& meshes, std::size_t mesh, const MeshToPlace& wanted,
                                   const std::vector<HostDevice>& places);
  std::vector<std::string> hosts_of(const std::vector<std::string>& planned) const;
  static bool start_at(RunMeshes& meshes, const MeshPlacement& where);
  std::optional<std::string> find_lost_host();
  void remember(const RunMeshes& meshes);

  Cluster& cluster_;
  const RunRecoveryOptions options_;
  const SteadyClock clock_;
  RestartBudget budget_;
  std::map<std::string, std::string> replacement_of_;  ///< Replacement, by lost host.
  /// Missing host that made start() fail.
  std::optional<std::string> lost_host_;
};

}  // namespace weft::actors

#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster/head_link.h"
#include "actors/cluster/revocable_target.h"
#include "actors/launch/local_cluster.h"
#include "actors/launch/run_supervisor.h"
#include "actors/launch/supervisor_event_queue.h"
#include "actors/supervision/process_launcher.h"
#include "actors/system/system.h"
#include "core/base/secret.h"

namespace weft::actors {

/// Cluster of a supervised run: one that this process starts (`launcher: local`), or one that runs.
/// Connects to its head, and adds its deaths to the supervisor's queue. Owner's thread only.
class RunCluster final {
 public:
  /// Borrows all arguments.
  RunCluster(const SupervisedRun& run, ProcessLauncher& launcher, SupervisorEventQueue& queue);

  /// Starts or finds the cluster, and connects to its head. `executable`: serves the roles head and
  /// agent; `gives_up`: see LocalCluster::Options. Throws the errors of LocalCluster, find_token()
  /// and HeadLink::join().
  void start(const std::function<std::filesystem::path()>& executable,
             const std::function<bool()>& gives_up);
  /// Blocks until the hosts of the run have joined, and returns the cluster then. Passes events of
  /// the queue to `react`, which may throw. Throws Error(kDeadlineExceeded) that names the missing
  /// hosts.
  ClusterStatus wait_for_hosts(const std::function<void(const SupervisorEvent&)>& react);

  /// Returns true if this process has started the cluster.
  bool is_local() const { return local_.has_value(); }
  /// Returns the address of the head, "HOST:PORT".
  const std::string& head() const { return head_address_; }
  /// Returns the present token.
  Secret token() const { return system_->token(); }
  /// Restart a process of a local cluster; see LocalCluster.
  void restart_head() { local_->restart_head(system_->token()); }
  void restart_agent(const std::string& host) { local_->restart_agent(host, system_->token()); }

  /// Tells the head that a host has died; later, if the head is away.
  void report_host_death(const SupervisorEvent& death);
  /// Repeats reports that a head that was away has not received.
  void repeat_reports();
  /// Tells the head that no other driver will come.
  void report_no_driver();

 private:
  void start_local(const std::filesystem::path& executable, const std::function<bool()>& gives_up);
  void connect();
  std::vector<std::string> missing_hosts(const ClusterStatus& status) const;

  const SupervisedRun& run_;
  ProcessLauncher& launcher_;
  SupervisorEventQueue& queue_;
  std::string head_address_;
  Secret token_;
  std::optional<LocalCluster> local_;
  std::optional<System> system_;
  const RevocableTarget<HeadLink> ear_;
  std::optional<HeadLink> link_;
  std::optional<RevocableTarget<HeadLink>::Binding> binding_;
  // host deaths that were not reported, as the head was away
  std::vector<SupervisorEvent> unreported_deaths_;
};

}  // namespace weft::actors

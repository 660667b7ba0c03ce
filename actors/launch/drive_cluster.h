#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "actors/access/connection_security.h"
#include "actors/cluster/cluster.h"
#include "actors/cluster/revocable_target.h"
#include "actors/launch/app_main.h"
#include "actors/launch/cluster_config.h"
#include "actors/launch/driver_interruption.h"
#include "core/base/secret.h"
#include "core/log/log.h"

namespace weft::actors {

/// Sections of the run file that all processes of a run need. Mistakes in other sections are not
/// reported here.
struct ProcessConfig {
  ClusterConfig cluster;
  RecoveryConfig recovery;
  LogLevel log_level = LogLevel::kInfo;

  static ProcessConfig of(const AppRun& run);
};

/// Work of a driver, and its access to the cluster at `run.head`.
struct DriverTask {
  AppRun run;
  ProcessConfig config;
  std::string name;           ///< Name of the owner in the cluster.
  std::size_t num_hosts = 0;  ///< Hosts to wait for if there is no run file.
  Secret token;
  ConnectionSecurity protection;
};

/// Joins the cluster, calls `drive`, and reports the end of the run. Returns the exit status.
/// `target`: reaches the Cluster while there is one. Throws the cause of a failure.
int drive_cluster(const AppMain::Drive& drive, DriverInterruption& interruption, DriverTask task,
                  const RevocableTarget<Cluster>& target);

std::filesystem::path own_executable();
std::string own_name();

}  // namespace weft::actors

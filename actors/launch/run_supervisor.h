#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/access/connection_security.h"
#include "actors/launch/check_report.h"
#include "actors/launch/cluster_config.h"
#include "actors/launch/edit_watch.h"

namespace weft::actors {

/// Run that `weft run` starts. Its run file has been read, and the app's check has passed.
struct SupervisedRun {
  RunHeader header;
  /// Path of the resolved run file, in `out`.
  std::filesystem::path run_file;
  /// Name of the original of `run_file` in messages.
  std::string original;
  /// Input files of people, whose edits during the run are reported.
  std::vector<ReadFile> read_files;
  /// Address of a running cluster, "HOST:PORT"; empty: the launcher of the run file starts one.
  std::string head;
  std::filesystem::path out;
  /// Token file of the cluster at `head`; empty: see find_token().
  std::filesystem::path token_file = {};
  CheckReport check = {};
  /// Protection of the connections to the cluster at `head`.
  ConnectionSecurity protection = {};
  /// Token of the cluster at `head`, if the caller has it.
  Secret token = {};
  /// See AppRun.
  std::string started_by = {};
  /// New place of the earlier run that was at `out`. May be empty.
  std::filesystem::path moved = {};
};

/// Supervises a run: starts head and agents (launcher local), then the app's driver, passes Ctrl-C
/// on, and ends all of them with it. Its last output on stderr is the first cause of a failure.
/// Returns the exit status of `weft run`.
int supervise_run(SupervisedRun run);

}  // namespace weft::actors

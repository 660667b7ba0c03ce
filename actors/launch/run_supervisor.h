#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/launch/cluster_config.h"
#include "actors/launch/connection_security.h"
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
  /// Digest of the check's plan, for the driver; may be empty.
  std::string checked = {};
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

/// Runs `APP --weft-role=ROLE --config FILE --set ... MORE..` with the terminal of this process,
/// and returns its exit status.
int run_app_role(const std::filesystem::path& app, const std::string& role,
                 const std::filesystem::path& run_file, const std::vector<std::string>& overrides,
                 const std::vector<std::string>& more,
                 const std::filesystem::path& config_folder = {});

}  // namespace weft::actors

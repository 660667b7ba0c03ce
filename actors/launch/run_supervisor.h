#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/launch/cluster_config.h"
#include "actors/launch/edit_watch.h"
#include "actors/launch/protection.h"

namespace weft::actors {

/// A run that `weft run` is to start. Its run file has been read, and the app's check has found
/// nothing wrong with it.
struct SupervisedRun {
  RunHeader header;
  /// The resolved run file in `out`.
  std::filesystem::path run_file;
  /// Original of `run_file`, as messages call it.
  std::string original;
  /// Files of people that were read for it: an edit while the run lasts is reported.
  std::vector<ReadFile> read_files;
  /// "HOST:PORT" of a cluster that runs; empty: the launcher of the run file starts one
  std::string head;
  std::filesystem::path out;
  /// of the cluster at `head`; empty: it is looked up, see find_token()
  std::filesystem::path token_file = {};
  /// digest of what the check has planned, for the driver; may be empty
  std::string checked = {};
  /// towards the cluster at `head`
  Protection protection = {};
  /// of the cluster at `head`, where whoever starts it has it
  Secret token = {};
  /// see AppRun
  std::string started_by = {};
  /// Where the earlier run that lay at `out` lies now. May be empty.
  std::filesystem::path moved = {};
};

/// Parent and supervisor of a run: starts head and agents (launcher local), then the app's driver,
/// passes Ctrl-C on, and ends everything with it. Its last words on stderr are the first cause of a
/// failure. Returns the exit status of `weft run`.
int supervise_run(SupervisedRun run);

/// Runs `APP --weft-role=ROLE --config FILE --set ... MORE..` with the terminal of this process,
/// and returns its exit status.
int run_app_role(const std::filesystem::path& app, const std::string& role,
                 const std::filesystem::path& run_file, const std::vector<std::string>& overrides,
                 const std::vector<std::string>& more,
                 const std::filesystem::path& config_folder = {});

}  // namespace weft::actors

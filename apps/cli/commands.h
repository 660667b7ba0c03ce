#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/access/connection_security.h"
#include "apps/cli/reshard_request.h"
#include "apps/cli/schedule_query.h"
#include "apps/cluster_view/head_client.h"
#include "core/base/secret.h"

namespace weft::apps {

struct HeadOptions {
  std::string listen = "127.0.0.1:7077";
  std::string state;
  double grace = 60;  ///< seconds
  bool insecure = false;
};
struct JoinOptions {
  std::string head;
  std::string name;
  std::uint32_t devices = 1;
  double cpus = 0;                     ///< 0: those that this process may use
  std::uint64_t memory = 0;            ///< bytes; 0: the memory of this machine
  std::vector<std::string> labels;     ///< "zone=a"
  std::vector<std::string> resources;  ///< "licence=2"
  double grace = 25;                   ///< seconds
  std::string logs;
  std::string token_file;
  std::string certificate;
  bool insecure = false;
};
struct FileOptions {
  std::string file;
  std::vector<std::string> overrides;
  std::string head;
  std::string token_file;
  std::string certificate;
  bool insecure = false;
  std::string out;
  std::string programs;  ///< plan: the device to print, or all
  bool json = false;
  bool detach = false;           ///< run: detach the run
  bool resume_in_place = false;  ///< run: continue in the folder of the earlier run
  // The agent that starts a detached run sets the fields below.
  std::string folder;  ///< base of relative paths in the file
  std::string started_by;
  Secret token;
  actors::ConnectionSecurity protection;
};
struct SelectOptions {
  FileOptions file;           ///< Options of the run file, except for `file`: see `input`.
  std::string input;          ///< Run file (YAML), or the data to choose from.
  std::string budget;         ///< Value of selection.budget; empty: the run file's, or 10%.
  std::string resume;         ///< Folder of a run to resume.
  std::uint32_t workers = 2;  ///< Number of processes, if the input is not a run file.
};
enum class StrategyAction : std::uint8_t { kShow, kCheck, kCompare };
struct StrategyOptions {
  StrategyAction action = StrategyAction::kShow;
  FileOptions file;  ///< check: may be a FILE.strategy
  std::string run;   ///< check: run file of a FILE.strategy
  std::string mesh;
  std::string layouts = "1d,2d,2.5d,3d,fsdp";  ///< compare
  std::string svg;
};
struct ReshardPlanOptions {
  bool asked = false;  ///< true if --reshard was given
  ReshardRequest request;
  std::string strategy = "weft";
  std::string svg;
  bool json = false;
};
enum class ScheduleAction : std::uint8_t { kShow, kCheck, kSimulate, kCompare, kDraw };
struct ScheduleOptions {
  ScheduleAction action = ScheduleAction::kShow;
  ScheduleQuery request;
  bool json = false;
  bool csv = false;  ///< show: print a file that can be read again
  std::string svg;
};
struct ConnectOptions : ClusterAccess {
  std::string state;  ///< token rotate: state folder of a head that is not running
  bool json = false;
  bool now = false;  ///< stop: skip the final checkpoints of runs
};

struct EventsOptions {
  ConnectOptions cluster;
  std::uint32_t last = 50;
  bool follow = false;
};
struct LogsOptions {
  ConnectOptions cluster;
  std::string run;  ///< or, without `device`, a named actor or mesh
  std::string device;
  std::uint32_t last = 0;  ///< lines; 0: all
  bool follow = false;
};
struct WhyOptions {
  ConnectOptions cluster;
  std::string wanted;   ///< run or actor; empty: all
  double within = 0.4;  ///< seconds
};
struct ActorsOptions {
  ConnectOptions cluster;
  double within = 2;    ///< seconds
  bool stops = false;   ///< true: stops actors; false: prints the table
  std::string stopped;  ///< name of the actors to stop
};
struct CancelOptions {
  ConnectOptions cluster;
  std::string run;
  bool now = false;
};

struct KeysOptions {
  std::string app = "gpt";  ///< App name, path, or run file.
  std::string under;        ///< Key to show with the keys below it; empty: all.
  bool json = false;
  bool schema = false;
};

// Commands. They return the exit status: 0 done, 1 failed, 2 wrong usage or configuration, 130
// interrupted. They throw weft::Error.
int run_head(const HeadOptions& options);
int run_join(const JoinOptions& options);
int run_run(const FileOptions& options);
int run_select(const SelectOptions& options);
/// Serves the role "run": runs a detached run, as the child of an agent.
int serve_run(const std::vector<std::string>& arguments);
int run_check(const FileOptions& options);
/// Replaces this process by the app's executable.
int run_keys(const KeysOptions& options);
int run_plan(const FileOptions& options);
int run_strategy(const StrategyOptions& options);
int run_plan_reshard(const ReshardPlanOptions& options);
/// Returns 1 also if `check` found an error.
int run_schedule(const ScheduleOptions& options);
int run_status(const ConnectOptions& options);
int run_stop(const ConnectOptions& options);
int run_token_rotate(const ConnectOptions& options);
int run_runs(const ConnectOptions& options);
int run_events(const EventsOptions& options);
/// Returns 1 also if a log could not be read.
int run_logs(const LogsOptions& options);
int run_why(const WhyOptions& options);
int run_actors(const ActorsOptions& options);
int run_cancel(const CancelOptions& options);
/// Returns 1, after printing the reason, if no GPU can be used.
int run_gpus(bool json);
/// Replaces this process by a benchmark: "reshard --quick" by build/bin/weft-bench.
int run_benchmark(const std::vector<std::string>& arguments);

}  // namespace weft::apps

#include "actors/launch/app_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "actors/access/token.h"
#include "actors/cluster/head_link.h"
#include "actors/cluster/revocable_target.h"
#include "actors/cluster/run_events.h"
#include "actors/launch/access_arguments.h"
#include "actors/launch/check_report.h"
#include "actors/launch/child_report.h"
#include "actors/launch/drive_cluster.h"
#include "actors/launch/driver_interruption.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/internal/time_limits.h"
#include "actors/launch/local_cluster.h"
#include "actors/launch/roles.h"
#include "actors/supervision/orphans.h"
#include "actors/supervision/process_platform.h"
#include "core/base/descriptors.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/memory.h"
#include "core/base/nearest.h"
#include "core/base/non_blocking_output.h"
#include "core/base/terminal.h"
#include "core/config/config_problem.h"
#include "core/crash/crash_report.h"

namespace weft::actors {
namespace {

AppRun make_run(const RoleArguments& arguments) {
  AppRun run;
  run.plan_digest = arguments.get_or("plan-digest", "");
  run.restartable = arguments.has("restartable");
  if (arguments.has("restart")) run.restart = arguments.number("restart");
  run.restarts = arguments.get_or("restarts", "");
  run.refused = arguments.get_or("refused", "");
  run.config = arguments.get_or("config", "");
  run.config_folder = arguments.get_or("config-folder", "");
  run.started_by = arguments.get_or("started-by", "");
  run.moved = arguments.get_or("moved", "");
  run.overrides = arguments.all("set");
  run.out = arguments.get_or("out", "");
  run.json = arguments.has("json");
  run.quiet = arguments.has("quiet");
  run.head = arguments.get_or("head", "");
  run.binary = arguments.get_or("binary", "");
  run.more = arguments.unread();
  return run;
}

/// Returns the hosts of a program that was started by hand: those of the run file, or
/// `--workers` of `--devices` each.
std::vector<HostSpec> hosts_by_hand(const RoleArguments& arguments, const AppRun& run,
                                    const ProcessConfig& config) {
  if (!run.config.empty()) return config.cluster.hosts;
  std::vector<HostSpec> hosts;
  const std::uint64_t workers = arguments.has("workers") ? arguments.number("workers") : 2;
  const std::uint32_t devices = arguments.has("devices") ? arguments.number("devices") : 1;
  for (std::uint64_t i = 0; i < workers; ++i)
    hosts.push_back({fmt::format("worker{}", i), devices});
  return hosts;
}

/// Returns the options of a program's own cluster. The deaths of its processes go to `target`.
LocalCluster::Options local_options(const std::vector<HostSpec>& hosts, const AppRun& run,
                                    const ProcessConfig& config,
                                    const RevocableTarget<Cluster>& target) {
  const auto on_death = [target](const std::string& who, const ExitReport& evidence) {
    target.tell([&](Cluster& cluster) {
      if (who == "head") cluster.report_head_death(evidence);
      else cluster.report_host_death(who, evidence);
    });
  };
  LocalCluster::Options options{own_executable(), hosts,    run.out,
                                Secret::random(), on_death, config.log_level};
  options.caps_devices = config.cluster.memory != 0;
  options.note = [](const std::string& text) { say(stderr, "{}\n", text); };
  return options;
}

/// Finds the token and the protection for a running cluster.
void find_access(const RoleArguments& arguments, DriverTask& task) {
  const Address head = Address::parse(task.run.head);
  const std::string token_file = arguments.get_or("token-file", "");
  task.token = find_token(head, token_file, kConnectWithin);
  task.protection =
      find_protection(head, token_file, arguments.get_or("cert", ""), arguments.has(kInsecureFlag));
}

int by_hand_usage(const std::string& program) {
  say(stdout,
      "usage: {0} [--head HOST:PORT [--token-file FILE] [--cert sha256:DIGITS | --insecure]] "
      "[--workers N] [--devices N] [--out DIR] "
      "[--config FILE [--set "
      "key=value]...]\n"
      "Without --head it starts a cluster of its own on this machine: --workers hosts (2) of "
      "--devices devices (1) each.\n",
      program);
  return 0;
}

}  // namespace

const ConfigDocument& AppRun::document() const {
  if (!document_)
    document_ = std::make_shared<const ConfigDocument>(
        ConfigDocument::load(config, overrides, config_folder));
  return *document_;
}

int exit_status_of(const Error& error, bool interrupted) {
  if (interrupted && error.code() == ErrorCode::kCancelled) return kInterrupted;
  return error.code() == ErrorCode::kInvalidConfig ? 2 : 1;
}

AppMain::AppMain(int argc, char** argv) : arguments_(argv + 1, argv + argc) {
  open_standard_descriptors();
  raise_descriptor_limit();
  report_crashes();
  keep_freed_memory();
}

int AppMain::run(const Drive& drive) {
  try {
    return serve(drive);
  } catch (...) {
    // Before a role begins, an invalid argument is wrong usage.
    const Error error = current_error();
    const bool usage =
        error.code() == ErrorCode::kInvalidConfig || error.code() == ErrorCode::kInvalidArgument;
    // Messages about a file begin with its place.
    const bool placed = error.code() == ErrorCode::kInvalidConfig;
    const std::string who = placed ? "" : own_name() + ": ";
    say(stderr, "{}\n", wrapped_for_terminal(STDERR_FILENO, who + error.message()));
    return usage ? 2 : 1;
  }
}

int AppMain::serve(const Drive& drive) {
  if (const auto status = serve_cluster_role(arguments_)) return *status;
  const auto role = role_of(arguments_);
  if (!role) return serve_by_hand(drive);
  const RoleArguments arguments(arguments_,
                                {"json", "quiet", "schema", "restartable", kInsecureFlag});
  if (role == "keys") return exit_status_after_flush(own_name(), serve_keys(arguments));
  if (role == "device") {
    return serve_device(arguments, [this](System& system) {
      for (const auto& provide : provided_) provide(system);
    });
  }
  if (role == "check") return exit_status_after_flush(own_name(), serve_check(arguments));
  if (role == "plan") {
    if (plan_) return exit_status_after_flush(own_name(), plan_(make_run(arguments)));
    throw_error(ErrorCode::kInvalidArgument,
                "{} has no plan to show; weft plan takes apps that train or select", own_name());
  }
  if (role == "driver") return serve_driver(drive, arguments);
  throw_error(ErrorCode::kInvalidArgument,
              "--weft-role={}: expected driver, device, check, plan, keys, head or agent", *role);
}

int AppMain::serve_check(const RoleArguments& arguments) {
  AppRun run = make_run(arguments);
  CheckReport report{.restartable = allows_restarts_};
  run.planned = [&report](const std::string& digest) { report.plan_digest = digest; };
  try {
    const int status = check_ ? check_(run) : 0;
    if (status != 0) return status;
    if (const std::string place = arguments.get_or("report-to", ""); !place.empty())
      write_child_report(place, report.to_text());
    // The document knows which values are paths once all sections are read.
    if (const std::string place = arguments.get_or("resolved-to", ""); !place.empty())
      write_child_report(place, run.document().resolved());
    return status;
  } catch (const Error& error) {
    if (!run.json || error.code() != ErrorCode::kInvalidConfig) throw;
    say(stdout, "{}", problems_json(run.config, problems_of(error, run.config, run.overrides)));
    return exit_status_of(error, false);
  }
}

int AppMain::serve_keys(const RoleArguments& arguments) {
  const ReadKeys shared = [](const ConfigDocument& document) {
    parse_run_header(document, program_directory());
  };
  std::vector<ConfigKey> keys = keys_read_by(read_keys_ ? read_keys_ : shared);
  if (arguments.has("schema")) {
    say(stdout, "{}", keys_schema(keys, fmt::format("a run file of Weft, app: {}", own_name())));
    return 0;
  }
  if (const std::string under = arguments.get_or("under", ""); !under.empty()) {
    std::vector<std::string> paths;
    for (const ConfigKey& key : keys) paths.push_back(key.path);
    std::erase_if(keys, [&](const ConfigKey& key) {
      return key.path != under && !key.path.starts_with(under + ".") &&
             !key.path.starts_with(under + "[");
    });
    if (keys.empty())
      throw_error(ErrorCode::kNotFound, "{} has no key '{}'{}", own_name(), under,
                  did_you_mean(under, paths));
  }
  const std::string text = arguments.has("json") ? keys_json(keys) : keys_text(keys);
  say(stdout, "{}", arguments.has("json") ? text : wrapped_for_terminal(STDOUT_FILENO, text, 4));
  return 0;
}

int AppMain::serve_driver(const Drive& drive, const RoleArguments& arguments) {
  const NonBlockingOutput output;
  DriverInterruption interruption(EndRequestFilter::Parent::kKills);
  AppRun run = make_run(arguments);
  interruption.connect(run);
  const Secret token = inherited_token(arguments);
  make_folders(run.out / "logs", "choose another folder with --out");
  std::optional<Error> failure;
  try {
    const ProcessConfig config = ProcessConfig::of(run);
    const RevocableTarget<Cluster> nobody;  // unused: the head and agents have another parent
    const int status =
        drive_cluster(drive, interruption,
                      {run, config, arguments.get_or("name", "driver"), config.cluster.hosts.size(),
                       token, connection_security_of(arguments)},
                      nobody);
    return status == 0 && interruption.requested() ? kInterrupted : status;
  } catch (...) {
    failure = current_error();
  }
  const int status = exit_status_of(*failure, interruption.requested());
  if (status != kInterrupted)
    write_child_report(arguments.get_or("last-words", ""), failure->message());
  return status;
}

int AppMain::serve_by_hand(const Drive& drive) {
  const std::string program = own_name();
  const RoleArguments arguments(arguments_, {"json", "help", kInsecureFlag});
  if (arguments.has("help")) return by_hand_usage(program);
  const NonBlockingOutput output;
  arguments.check_known({"head", "token-file", "cert", kInsecureFlag, "workers", "devices", "out",
                         "config", "set", "json", "help"});
  DriverInterruption interruption(EndRequestFilter::Parent::kNone);
  AppRun run = make_run(arguments);
  interruption.connect(run);
  if (run.out.empty()) run.out = std::filesystem::path("runs") / program;
  make_folders(run.out / "logs", "choose another folder with --out");
  const ProcessConfig config = ProcessConfig::of(run);
  const std::vector<HostSpec> hosts = hosts_by_hand(arguments, run, config);
  std::optional<Error> failure;
  int status = 0;
  // receives the deaths of a local cluster's processes
  const RevocableTarget<Cluster> death_target;
  std::unique_ptr<ProcessLauncher> launcher;
  std::optional<LocalCluster> local;  // while it lives, other commands find the cluster's token
  try {
    DriverTask task{run, config, program, 1, {}, {}};
    if (!run.head.empty()) find_access(arguments, task);
    if (arguments.has(kInsecureFlag)) warn_of_insecure(Log::standard_error(LogLevel::kWarning));
    if (run.head.empty()) {
      become_subreaper();
      launcher = make_launcher();
      LocalCluster::Options options = local_options(hosts, run, config, death_target);
      options.gives_up = [&interruption] { return interruption.requested(); };
      task.num_hosts = hosts.size();
      task.token = options.token;
      local.emplace(*launcher, std::move(options));
      task.run.head = to_string(local->head());
    }
    status = drive_cluster(drive, interruption, std::move(task), death_target);
  } catch (...) {
    failure = current_error();
  }
  if (launcher) {
    launcher->stop_all(internal::kStopGrace);
    reap_orphans(internal::kStopGrace);
  }
  if (!failure) return status == 0 && interruption.requested() ? kInterrupted : status;
  say(stderr, "{}\n",
      wrapped_for_terminal(STDERR_FILENO,
                           fmt::format("{} failed: {}", program, failure->message())));
  RunEvents(run.out).add({"failed", failure->message()});
  return exit_status_of(*failure, interruption.requested());
}

}  // namespace weft::actors

#include "actors/launch/drive_cluster.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "actors/cluster/run_events.h"
#include "actors/launch/clean_up_watchdog.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/roles.h"
#include "core/base/machine.h"
#include "core/base/platform.h"

namespace weft::actors {
namespace {

constexpr auto kHostsWithin = std::chrono::seconds(30);
/// Time after a lost connection in which its cause may arrive.
constexpr auto kRootCauseTimeout = std::chrono::milliseconds(500);
/// Time for the answer to a cancel request to leave before the process ends.
constexpr auto kAnswerLeavesWithin = std::chrono::milliseconds(50);

/// Folder in which the processes of a run keep objects that exceed their memory.
std::filesystem::path object_folder(const AppRun& run) {
  return std::filesystem::absolute(run.out) / "objects";
}

SystemOptions system_options_of(const DriverTask& task, const RunDescription& description) {
  SystemOptions options;
  options.name = task.name;
  options.run = description.number();
  options.token = task.token;
  task.protection.apply(Address::parse(task.run.head), options);
  options.log = Log::standard_error(task.config.log_level);
  options.binary_hash = own_binary_sha256();
  options.binary_name = own_name();
  options.object_memory = task.config.cluster.objects;
  options.object_folder = object_folder(task.run);
  return options;
}

RunDescription description_of(const AppRun& run, const RecoveryConfig& recovery) {
  RunDescription description{machine_name(), std::filesystem::absolute(run.out).string()};
  description.restart_count = run.restart;
  description.previous_run_path = run.moved.string();
  description.restartable = run.restartable && recovery.restarts > 0;
  if (const auto colon = run.started_by.rfind(':'); colon != std::string::npos) {
    description.agent = run.started_by.substr(0, colon);
    description.launch = std::stoull(run.started_by.substr(colon + 1));
  }
  return description;
}

ClusterOptions cluster_options_of(const DriverTask& task) {
  const ClusterConfig& config = task.config.cluster;
  ClusterOptions options;
  options.name = task.name;
  options.binary = task.run.binary;
  // Limits the threads of every kernel library to those that the run file grants.
  options.environment = {
      fmt::format("OMP_NUM_THREADS={}", config.threads_per_device),
      fmt::format("{}={}", kLogLevelVariable, to_string(task.config.log_level)),
      fmt::format("{}={}", kObjectMemoryVariable, config.objects),
      fmt::format("{}={}", kObjectFolderVariable, object_folder(task.run).string())};
  options.memory_cap = config.memory;
  for (const HostSpec& host : config.hosts)
    if (!host.interface.empty()) options.interfaces[host.name] = host.interface;
  options.on_event = [events = RunEvents(task.run.out)](const RunEvent& event) {
    events.add(event);
  };
  options.description = description_of(task.run, task.config.recovery);
  return options;
}

/// Calls `drive` and reports how the run ends. Throws the first cause of a failure.
int drive_and_report(const AppMain::Drive& drive, const DriverInterruption& interruption,
                     Cluster& cluster, const AppRun& run) {
  std::optional<Error> failure;
  try {
    const int status = drive(cluster, run);
    const bool stopped = status == kInterrupted || (status == 0 && interruption.requested());
    cluster.report_end({stopped       ? RunState::kInterrupted
                        : status == 0 ? RunState::kDone
                                      : RunState::kFailed,
                        status == 0 || stopped ? "" : fmt::format("exit status {}", status)});
    return status;
  } catch (const Error& error) {
    failure = error;
  }
  // The app may have seen a symptom before its cause arrived.
  const bool asked_for = failure->code() == ErrorCode::kCancelled && interruption.requested();
  const bool symptom = is_secondary_failure(*failure) && !asked_for;
  if (auto cause = symptom ? cluster.failures().first(kRootCauseTimeout) : std::nullopt)
    failure = std::move(cause);
  const bool stopped = exit_status_of(*failure, interruption.requested()) == kInterrupted;
  cluster.report_end(
      {stopped ? RunState::kInterrupted : RunState::kFailed, stopped ? "" : failure->message()});
  throw std::move(*failure);
}

}  // namespace

std::filesystem::path own_executable() { return std::filesystem::read_symlink("/proc/self/exe"); }
std::string own_name() { return own_executable().filename().string(); }

ProcessConfig ProcessConfig::of(const AppRun& run) {
  ProcessConfig config;
  if (run.config.empty()) return config;
  const ConfigNode root = run.document().root();
  if (const auto section = cluster_section(root)) config.cluster = parse_cluster(*section);
  if (const auto section = recovery_section(root))
    config.recovery = parse_recovery(*section, config.cluster.hosts);
  if (const auto section = logs_section(root)) config.log_level = parse_logs(*section);
  return config;
}

int drive_cluster(const AppMain::Drive& drive, DriverInterruption& interruption, DriverTask task,
                  const RevocableTarget<Cluster>& target) {
  ClusterOptions options = cluster_options_of(task);
  System system(system_options_of(task, options.description));
  const Address head = Address::parse(task.run.head);
  // Handles of the driver's actors work in other processes.
  system.listen({local_address_towards(head), 0});
  options.on_cancel = [&interruption, &system](bool now) {
    const DriverInterruption::Cancelled cancelled = interruption.cancel(now);
    if (cancelled.ends_at_once)
      system.run_after(kAnswerLeavesWithin, [] { end_process(kInterrupted); });
    return cancelled.doing;
  };
  const bool restartable = options.description.restartable;
  Cluster cluster(system, head, std::move(options));
  const RevocableTarget<Cluster>::Binding binding(target, cluster);
  std::vector<std::string> names;
  if (!task.run.config.empty())
    names = task.config.recovery.without_spares(task.config.cluster.hosts);
  // `weft run` has seen all hosts. A run that recovers starts with those that are left.
  if (!restartable)
    cluster.wait_for_hosts(names, names.empty() ? task.num_hosts : names.size(), kHostsWithin);
  interruption.set_phase("", OnInterrupt::kFinishes);
  CleanUpWatchdog limit(cluster, interruption);
  task.run.clean_up_begins = [&limit] { limit.begin(); };
  return drive_and_report(drive, interruption, cluster, task.run);
}

}  // namespace weft::actors

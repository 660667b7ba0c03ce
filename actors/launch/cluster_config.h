#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/supervision/restart_budget.h"
#include "core/base/clock.h"
#include "core/config/config_document.h"
#include "core/device/device_config.h"
#include "core/log/log.h"

namespace weft::actors {

/// The least that `cluster.memory` may be: a device process that has done nothing holds half of it.
inline constexpr std::uint64_t kLeastMemory = std::uint64_t{16} << 20;

/// Who starts the processes of a cluster.
enum class LauncherKind {
  kLocal,   ///< `weft run` itself, all on this machine
  kManual,  ///< people: `weft head` and `weft join` in other terminals, or other machines
};

struct HostSpec {
  std::string name;
  std::uint32_t devices = 1;
  std::optional<double> link = {};  ///< bytes per second of its network, each way
  std::string interface = {};       ///< network interface for tensors; empty: see DataNetworks
};

/// The `cluster:` section of a run file.
struct ClusterConfig {
  LauncherKind launcher = LauncherKind::kLocal;
  std::vector<HostSpec> hosts = {{"worker0", 1}};
  /// `device`, `threads_per_device`, `share_gpu` and `deterministic`
  DeviceConfig device;
  /// `memory`: what each device process may hold at most, in bytes; 0: no limit.
  std::uint64_t memory = 0;
  /// A run in which nothing moves anywhere for so long is told of, again and again.
  Nanoseconds no_progress = std::chrono::seconds(60);
  /// A run of which an op takes longer ends. Nothing: an op may take for ever.
  std::optional<Nanoseconds> longest_op = {};
};

/// The `recovery:` section of a run file: what becomes of a run of which something dies.
struct RecoveryConfig {
  std::size_t restarts = RestartBudget::kRestarts;  ///< At most so many within `within`; 0: none.
  Nanoseconds within = RestartBudget::kWithin;
  /// Hosts of `cluster:` that no mesh uses until another host is lost.
  std::vector<std::string> spares = {};
  bool waits = true;             ///< `if_too_few`: for devices, where too few are left; or fails.
  std::int64_t copy_every = 10;  ///< Steps between copies of the state in memory; 0: none.
  bool is_spare(const std::string& host) const;
  /// Names of those that are no spares.
  std::vector<std::string> without_spares(const std::vector<HostSpec>& hosts) const;
};

/// `hosts`: those of `cluster:`. Throws Error(kInvalidConfig) with all problems of the section.
RecoveryConfig parse_recovery(const ConfigNode& section, const std::vector<HostSpec>& hosts);

/// Throws Error(kInvalidConfig) with all problems of the section.
ClusterConfig parse_cluster(const ConfigNode& section);

/// The `logs:` section of a run file: {level: debug | info | warning | error}, of every process of
/// the run. Throws Error(kInvalidConfig).
LogLevel parse_logs(const ConfigNode& section);

/// What every run file has, for all who read one.
ConfigNode name_of_run(const ConfigNode& root);
ConfigNode app_of_run(const ConfigNode& root);
std::optional<ConfigNode> cluster_section(const ConfigNode& root);
std::optional<ConfigNode> recovery_section(const ConfigNode& root);
std::optional<ConfigNode> logs_section(const ConfigNode& root);

/// What `weft` itself reads of a run file: the rest belongs to the app.
struct RunHeader {
  std::string name;
  std::filesystem::path app;  ///< the executable
  ClusterConfig cluster;
  RecoveryConfig recovery;
  LogLevel log_level = LogLevel::kInfo;
};

/// Reads `name`, `app`, `cluster`, `recovery` and `logs`. `app: gpt` is an executable in
/// `program_directory`; one with a slash is a path (ConfigNode::as_path). Throws
/// Error(kInvalidConfig), also when there is no such executable. Keys that it does not know are
/// left to others.
RunHeader parse_run_header(const ConfigDocument& document,
                           const std::filesystem::path& program_directory);

/// Folder of this process's executable.
std::filesystem::path program_directory();

/// How to get a program that is not in `directory` (a build's bin/), for the end of a message: ";
/// it has not been built yet: cmake --build build --target weft_apps_select". Empty if the build
/// beside it has no such program.
std::string how_to_build(const std::filesystem::path& directory, const std::string& target);

}  // namespace weft::actors

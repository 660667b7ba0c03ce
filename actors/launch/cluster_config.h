#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/agent/resources.h"
#include "actors/supervision/restart_budget.h"
#include "core/base/clock.h"
#include "core/config/config_document.h"
#include "core/log/log.h"

namespace weft::actors {

/// Minimum of `cluster.memory`, in bytes. An idle device process uses half of it.
inline constexpr std::uint64_t kLeastMemory = std::uint64_t{16} << 20;

/// Starter of a cluster's processes.
enum class LauncherKind {
  kLocal,   ///< `weft run` itself, all on this machine
  kManual,  ///< people: `weft head` and `weft join` in other terminals, or other machines
};

struct HostSpec {
  std::string name;
  std::uint32_t devices = 1;
  std::optional<double> link = {};  ///< bandwidth of its network, in bytes per second, each way
  std::string interface = {};       ///< network interface for tensors; empty: see DataNetworks
  HostCapacity capacity = {};       ///< what it offers besides devices, and its labels
};

/// The `cluster:` section of a run file.
struct ClusterConfig {
  LauncherKind launcher = LauncherKind::kLocal;
  std::vector<HostSpec> hosts = {{"worker0", 1}};
  int threads_per_device = 1;  ///< CPU threads that a device process computes with
  /// `memory`: limit of each device process, in bytes; 0: none.
  std::uint64_t memory = 0;
  /// Memory of a host for the run's objects (mesh/objects), in bytes; 0: a quarter of the available
  /// memory.
  std::uint64_t objects = 0;
  /// Time without any progress after which the run reports where it waits, repeatedly.
  Nanoseconds no_progress = std::chrono::seconds(60);
  /// Time limit of one op, after which the run ends; nullopt: none.
  std::optional<Nanoseconds> longest_op = {};
};

/// The `recovery:` section of a run file: what a run does after a death.
struct RecoveryConfig {
  std::size_t restarts =
      RestartBudget::kMaxRestarts;  ///< Maximum of deaths within `within`; 0: none.
  Nanoseconds within = RestartBudget::kWindow;
  /// Hosts of `cluster:` that no mesh uses until another host is lost.
  std::vector<std::string> spares = {};
  bool waits = true;             ///< `if_too_few`: waits for devices if too few are left; or fails.
  std::int64_t copy_every = 10;  ///< Steps between copies of the state in memory; 0: none.
  bool is_spare(const std::string& host) const;
  /// Returns the names of the hosts that are no spares.
  std::vector<std::string> without_spares(const std::vector<HostSpec>& hosts) const;
};

/// Parses the section, for the hosts of `cluster:`. Throws Error(kInvalidConfig) with all its
/// problems.
RecoveryConfig parse_recovery(const ConfigNode& section, const std::vector<HostSpec>& hosts);

/// Reader of the keys of `cluster:` that belong to a layer above: what devices compute on. Records
/// problems in the section.
using ReadDeviceKeys = std::function<void(const ConfigNode& section)>;

/// Parses the section. Throws Error(kInvalidConfig) with all its problems. Without `read_device`,
/// ignores the keys about devices.
ClusterConfig parse_cluster(const ConfigNode& section, const ReadDeviceKeys& read_device = {});

/// Parses the `logs:` section of a run file: {level: debug | info | warning | error}, for every
/// process of the run. Throws Error(kInvalidConfig).
LogLevel parse_logs(const ConfigNode& section);

/// Returns a key or section that every run file may have.
/// Name of the run, which is checked. Throws Error(kInvalidConfig).
std::string read_run_name(const ConfigNode& root);
ConfigNode app_of_run(const ConfigNode& root);
std::optional<ConfigNode> cluster_section(const ConfigNode& root);
std::optional<ConfigNode> recovery_section(const ConfigNode& root);
std::optional<ConfigNode> logs_section(const ConfigNode& root);

/// Part of a run file that `weft` itself reads. The rest belongs to the app.
struct RunHeader {
  std::string name;
  std::filesystem::path app;  ///< the executable
  ClusterConfig cluster;
  RecoveryConfig recovery;
  LogLevel log_level = LogLevel::kInfo;
};

/// Reads `name`, `app`, `cluster`, `recovery` and `logs`. `app: gpt` is an executable in
/// `program_directory`; one with a slash is a path (ConfigNode::as_path). Throws
/// Error(kInvalidConfig), also if there is no such executable. Ignores other keys. `read_device`:
/// see parse_cluster().
RunHeader parse_run_header(const ConfigDocument& document,
                           const std::filesystem::path& program_directory,
                           const ReadDeviceKeys& read_device = {});

/// Returns the folder of this process's executable.
std::filesystem::path program_directory();

/// Returns the end of a message about a program that is not in `directory` (a build's bin/): "; it
/// has not been built yet: cmake --build build --target weft_apps_select". Empty if the build
/// beside it has no such program.
std::string build_hint(const std::filesystem::path& directory, const std::string& target);

}  // namespace weft::actors

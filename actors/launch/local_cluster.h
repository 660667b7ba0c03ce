#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/launch/cluster_config.h"
#include "actors/net/address.h"
#include "actors/supervision/process_launcher.h"
#include "core/base/secret.h"
#include "core/log/log.h"

namespace weft::actors {

/// Head and agents as child processes on this machine: `launcher: local`.
///
/// Owned by `weft run`, or by an app that was started by hand. The children end when the launcher
/// is destroyed, or with this process.
class LocalCluster final {
 public:
  struct Options {
    std::filesystem::path executable;  ///< serves the roles head and agent
    std::vector<HostSpec> hosts;
    std::filesystem::path directory;  ///< gets state/ and logs/
    Secret token;
    /// Called on the launcher's thread when a child ends unasked: "head", or the name of a host.
    std::function<void(const std::string& who, const ExitReport&)> on_death;
    LogLevel log_level = LogLevel::kInfo;
    /// Listening host of the head, for agents that are not on this machine's loopback.
    std::string listen_host = "127.0.0.1";
    /// Returns the command that starts `command` on a host; empty: on this machine as it is.
    std::function<std::vector<std::string>(const std::string& host,
                                           std::vector<std::string> command)>
        wrap = {};
    bool caps_devices = false;  ///< agents cap the memory of their device processes
    /// Called once if the head takes long to start. May be empty.
    std::function<void(const std::string&)> note = {};
    /// Returns true to abandon the start of the head. May be empty.
    std::function<bool()> gives_up = {};
  };
  /// Starts the head, waits until it listens, and starts the agents; they join by themselves.
  /// Throws Error(kPeerDied) with evidence if the head ends, kCancelled if gives_up() returns true.
  /// Waits for a slow disk without limit. The launcher must outlive this.
  LocalCluster(ProcessLauncher& launcher, Options options);
  ~LocalCluster();
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  /// Restarts the head, at the same address and with its state, once the dead one is reaped: until
  /// then it holds both. Members of the cluster find the new head. `token`: the cluster's present
  /// one. Throws the errors of ProcessLauncher::launch(), and Error(kDeadlineExceeded) if the dead
  /// one is not reaped within 10 s.
  void restart_head(const Secret& token);
  /// Restarts the agent of a host, once the dead one is reaped. Throws like restart_head().
  void restart_agent(const std::string& host, const Secret& token);

  const Address& head() const { return head_; }
  pid_t head_pid() const { return head_pid_; }
  std::filesystem::path log_directory() const { return options_.directory / "logs"; }

 private:
  /// End of a process, passed on by the launcher's thread.
  struct ProcessExit;
  ProcessEvents events_of(const std::string& who);
  void wait_until_reaped(const std::string& who) const;
  ProcessSpec head_spec(const std::string& said, bool ignore_saved_members) const;
  void start_head();
  void start_agent(const HostSpec& host, const Secret& token);

  ProcessLauncher& launcher_;
  const Options options_;
  Address head_;
  pid_t head_pid_ = 0;
  std::map<std::string, std::shared_ptr<ProcessExit>> ends_;  // shared with the launcher's thread
};

}  // namespace weft::actors

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

/// A head and its agents as processes of this machine, started by this process: what `launcher:
/// local` means.
///
/// Owned by `weft run`, or by an app that was started by itself. They end when the launcher is
/// destroyed, or with this process.
class LocalCluster final {
 public:
  struct Options {
    std::filesystem::path executable;  ///< one that serves the roles head and agent
    std::vector<HostSpec> hosts;
    std::filesystem::path directory;  ///< gets state/ and logs/
    Secret token;
    /// On the launcher's thread, when one of them ends unasked: "head", or the name of a host.
    std::function<void(const std::string& who, const ExitEvidence&)> on_death;
    LogLevel log_level = LogLevel::kInfo;
    /// Where the head listens, for agents that are not on this machine's loopback.
    std::string listen_host = "127.0.0.1";
    /// The command that starts `command` on a host; empty: on this machine as it is.
    std::function<std::vector<std::string>(const std::string& host,
                                           std::vector<std::string> command)>
        wrap = {};
    bool caps_devices = false;  ///< Agents will cap the memory of their device processes.
    /// Told, once, that the head takes long to start. May be empty.
    std::function<void(const std::string&)> note = {};
    /// Asked while the head starts: whether nobody wants it any more. May be empty.
    std::function<bool()> gives_up = {};
  };
  /// Starts the head, waits until it listens, starts the agents; they join by themselves. Throws
  /// Error(kPeerDied) with evidence when the head ends, kCancelled when gives_up() says so. A slow
  /// disk is no reason to end. The launcher must outlive this.
  LocalCluster(ProcessLauncher& launcher, Options options);
  ~LocalCluster();
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  /// Another head at the same address, with its state, as soon as the dead one is reaped: until
  /// then it holds both. Who belongs to the cluster looks for it. `token`: the cluster's, which may
  /// have been replaced meanwhile. Throws as ProcessLauncher::launch() does.
  void restart_head(const Secret& token);
  /// Another agent under the name of a dead one, as soon as that is reaped. The same.
  void restart_agent(const std::string& host, const Secret& token);

  const Address& head() const { return head_; }
  pid_t head_pid() const { return head_pid_; }
  std::filesystem::path log_directory() const { return options_.directory / "logs"; }

 private:
  /// The end of a process, handed from the launcher's thread.
  struct End;
  ProcessEvents events_of(const std::string& who);
  void wait_until_reaped(const std::string& who) const;
  ProcessSpec head_spec(const std::string& said, bool begins_anew) const;
  void start_head();
  void start_agent(const HostSpec& host, const Secret& token);

  ProcessLauncher& launcher_;
  const Options options_;
  Address head_;
  pid_t head_pid_ = 0;
  std::map<std::string, std::shared_ptr<End>> ends_;  // shared with the launcher's thread
};

}  // namespace weft::actors

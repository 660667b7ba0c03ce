#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "actors/cluster/cluster.h"
#include "actors/launch/local_cluster.h"
#include "actors/supervision/fork_launcher.h"
#include "apps/bench/test_hosts.h"

namespace weft::apps {

/// Cluster for benchmarks: a head on this machine, agents on test hosts host0, host1, ..., and this
/// process as the driver. Without root, the agents run on this machine's loopback. Used by one
/// thread at a time. The destructor stops all processes.
class TestCluster final {
 public:
  struct Options {
    std::string name;                  ///< Name of the driver, such as "weft bench reshard".
    std::filesystem::path executable;  ///< program that runs as head, agent and device process
    std::filesystem::path hosts_tool;  ///< path of weft-hosts; empty: loopback
    std::filesystem::path directory;
    int hosts = 0;
    int nics = 1;
    std::uint32_t devices_per_host = 1;
    actors::FailureScope failure_scope = actors::FailureScope::kAllMeshes;
  };
  explicit TestCluster(const Options& options);
  ~TestCluster();
  TestCluster(const TestCluster&) = delete;
  TestCluster& operator=(const TestCluster&) = delete;

  actors::Cluster& cluster() { return *cluster_; }
  /// Kills the head by SIGKILL and starts another one at the same address.
  void replace_head();
  /// Null on loopback.
  const TestHosts* test_hosts() const { return test_hosts_ ? &*test_hosts_ : nullptr; }
  /// Returns the IP address of a host's interface.
  std::string address(std::size_t host, std::size_t nic = 0) const;
  static std::string host_name(std::size_t host);

 private:
  std::optional<TestHosts> test_hosts_;
  actors::ForkLauncher launcher_;
  std::unique_ptr<actors::LocalCluster> processes_;
  std::unique_ptr<actors::System> system_;
  std::unique_ptr<actors::Cluster> cluster_;
};

/// Parses a rate such as "500mbit" or "1gbit" into bits per second. `option` names the option in
/// the error. Throws Error(kInvalidArgument).
std::uint64_t parse_link_rate(const std::string& option, const std::string& text);

}  // namespace weft::apps

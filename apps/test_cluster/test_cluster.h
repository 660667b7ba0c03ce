#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "actors/launch/cluster.h"
#include "actors/launch/local_cluster.h"
#include "actors/supervision/fork_launcher.h"
#include "apps/test_cluster/test_hosts.h"

namespace weft::apps {

/// A head on this machine and agents on test hosts (or, without root, on this machine as it is),
/// called host0, host1, ..., with this process as the driver: what benchmarks run on. One thread at
/// a time; everything ends with it.
class TestCluster final {
 public:
  struct Options {
    std::string name;                  ///< Of the driver: "weft bench reshard".
    std::filesystem::path executable;  ///< serves the roles of head, agent and device process
    std::filesystem::path hosts_tool;  ///< weft-hosts; empty: loopback
    std::filesystem::path directory;
    int hosts = 0;
    int nics = 1;
    std::uint32_t devices_per_host = 1;
    actors::ClusterOptions::FailureScope failure_scope =
        actors::ClusterOptions::FailureScope::kAllMeshes;
  };
  explicit TestCluster(const Options& options);
  ~TestCluster();
  TestCluster(const TestCluster&) = delete;
  TestCluster& operator=(const TestCluster&) = delete;

  actors::Cluster& cluster() { return *cluster_; }
  /// SIGKILL to the head, and another one at its place.
  void replace_head();
  /// Nothing on loopback.
  const TestHosts* test_hosts() const { return test_hosts_ ? &*test_hosts_ : nullptr; }
  /// Of a host's interface.
  std::string address(std::size_t host, std::size_t nic = 0) const;
  static std::string host_name(std::size_t host);

 private:
  std::optional<TestHosts> test_hosts_;
  actors::ForkLauncher launcher_;
  std::unique_ptr<actors::LocalCluster> processes_;
  std::unique_ptr<actors::System> system_;
  std::unique_ptr<actors::Cluster> cluster_;
};

/// Bits per second of "500mbit", "1gbit", as the option of that name got it. Throws
/// Error(kInvalidArgument).
std::uint64_t parse_link_rate(const std::string& option, const std::string& text);

}  // namespace weft::apps

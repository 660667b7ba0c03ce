#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/cluster.h"
#include "actors/launch/local_cluster.h"
#include "actors/supervision/fork_launcher.h"
#include "apps/reshard_bench/reshard_host.h"
#include "apps/reshard_bench/test_hosts.h"

namespace weft::apps {

/// A head on this machine, agents on test hosts (or, without root, on this machine as it is), and a ReshardHost on each.
/// One thread at a time; everything ends with it.
class BenchCluster final {
 public:
  struct Options {
    std::filesystem::path executable;  ///< serves the roles of head, agent and device process
    std::filesystem::path hosts_tool;  ///< weft-hosts; empty: loopback
    std::filesystem::path directory;
    int hosts = 0;
    int nics = 1;
  };
  explicit BenchCluster(const Options& options);
  ~BenchCluster();
  BenchCluster(const BenchCluster&) = delete;
  BenchCluster& operator=(const BenchCluster&) = delete;

  actors::ActorRef<ReshardHost> host(std::size_t index) const {
    return hosts_.at(index)->rank(0).within(std::chrono::minutes(5));
  }
  /// Starts a host's process anew, after it has died.
  void restart(std::size_t index);
  /// Nothing on loopback.
  const TestHosts* test_hosts() const { return test_hosts_ ? &*test_hosts_ : nullptr; }
  /// Of a host's interface.
  std::string address(std::size_t host, std::size_t nic) const;

 private:
  std::optional<TestHosts> test_hosts_;
  actors::ForkLauncher launcher_;
  std::unique_ptr<actors::LocalCluster> processes_;
  std::unique_ptr<actors::System> system_;
  std::unique_ptr<actors::Cluster> cluster_;
  /// A mesh each, so that the death of one leaves the others as they are.
  std::vector<std::optional<actors::ActorMesh<ReshardHost>>> hosts_;
};

}  // namespace weft::apps

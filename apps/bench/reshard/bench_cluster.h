#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/bench/reshard/reshard_host.h"
#include "apps/bench/test_cluster.h"

namespace weft::apps {

/// ReshardHost on each host of a cluster. Used by one thread at a time. Borrows the cluster.
class BenchCluster final {
 public:
  BenchCluster(TestCluster& cluster, std::size_t hosts);

  actors::ActorRef<ReshardHost> host(std::size_t index) const {
    return hosts_.at(index)->rank(0).within(std::chrono::minutes(5));
  }
  /// Restarts the process of a host after it died.
  void restart(std::size_t index);
  /// Null on loopback.
  const TestHosts* test_hosts() const { return cluster_.test_hosts(); }
  /// Returns the IP address of a host's interface.
  std::string address(std::size_t host, std::size_t nic) const {
    return cluster_.address(host, nic);
  }

 private:
  TestCluster& cluster_;
  /// A mesh per host, so that the death of one leaves the others intact.
  std::vector<std::optional<actors::ActorMesh<ReshardHost>>> hosts_;
};

}  // namespace weft::apps

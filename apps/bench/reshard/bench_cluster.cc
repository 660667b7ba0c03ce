#include "apps/bench/reshard/bench_cluster.h"

namespace weft::apps {

BenchCluster::BenchCluster(TestCluster& cluster, std::size_t hosts)
    : cluster_(cluster), hosts_(hosts) {
  for (std::size_t i = 0; i < hosts; ++i) restart(i);
}

void BenchCluster::restart(std::size_t index) {
  hosts_[index].reset();
  const std::string name = TestCluster::host_name(index);
  hosts_[index].emplace(cluster_.cluster().spawn<ReshardHost>(
      "reshard_" + name, {{"host", 1}},
      actors::SpawnOptions{.place = {{name}}, .needs = {.devices = 1}}));
}

}  // namespace weft::apps

// Tests the many-to-many cases of the literature (Zhuang et al., "On optimizing the communication
// of model parallelism", MLSys 2023, section 5.1.2). Compares bytes over the busiest host's link,
// in units of the tensor.
#include <gtest/gtest.h>

#include <functional>

#include "transfer/reshard/plan_stats.h"

namespace weft::transfer {
namespace {

/// `hosts` x 4 devices from device `first` on, with the number of parts per dimension. `part_of`
/// returns a device's part from its host and its index in the host.
struct Side {
  int first, hosts;
  std::vector<int> parts;
  std::function<std::vector<int>(int host, int place)> part_of;
};

ShardMap map_of(const Side& side, const Shape& shape) {
  ShardMap map{shape, {}};
  for (int host = 0; host < side.hosts; ++host) {
    for (int place = 0; place < 4; ++place) {
      const std::vector<int> part = side.part_of(host, place);
      std::vector<Interval> intervals;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        intervals.push_back(
            {shape[d] * part[d] / side.parts[d], shape[d] * (part[d] + 1) / side.parts[d]});
      }
      map.shards.push_back({DeviceId(side.first + host * 4 + place), Region(std::move(intervals))});
    }
  }
  return map;
}

struct Case {
  const char* name;
  Side source, destination;
  double send_recv, local_allgather, broadcast;
};

std::vector<Case> cases() {
  const auto replicated = [](int, int) { return std::vector{0, 0, 0}; };
  const auto host_on_0 = [](int host, int) { return std::vector{host, 0, 0}; };
  const auto host_on_1 = [](int host, int) { return std::vector{0, host, 0}; };
  const auto host_on_2 = [](int host, int) { return std::vector{0, 0, host}; };
  const auto place_on_0 = [](int, int place) { return std::vector{place, 0, 0}; };
  const auto both_on_0 = [](int host, int place) { return std::vector{host * 4 + place, 0, 0}; };
  const auto both_on_1 = [](int host, int place) { return std::vector{0, host * 4 + place, 0}; };
  return {
      {"1: S0 R R to S0 R R",
       {0, 2, {2, 1, 1}, host_on_0},
       {8, 2, {2, 1, 1}, host_on_0},
       2,
       0.5,
       0.5},
      {"2: R R R to S0 R R",
       {0, 2, {1, 1, 1}, replicated},
       {8, 2, {2, 1, 1}, host_on_0},
       2,
       0.5,
       0.5},
      {"3: R S0 R to S0 R R",
       {0, 2, {1, 2, 1}, host_on_1},
       {8, 2, {2, 1, 1}, host_on_0},
       2,
       0.5,
       0.5},
      {"4: R S01 R to S01 R R",
       {0, 2, {1, 8, 1}, both_on_1},
       {8, 2, {8, 1, 1}, both_on_0},
       0.5,
       0.5,
       0.5},
      {"5: S1 R R to S0 R R",
       {0, 2, {4, 1, 1}, place_on_0},
       {8, 2, {2, 1, 1}, host_on_0},
       2,
       0.5,
       0.5},
      {"6: S0 R R to 3 hosts S0 R R",
       {0, 2, {2, 1, 1}, host_on_0},
       {8, 3, {3, 1, 1}, host_on_0},
       2,
       0.5,
       0.5},
      {"7: one host S1 R R to R R R",
       {0, 1, {4, 1, 1}, place_on_0},
       {8, 2, {1, 1, 1}, replicated},
       8,
       8,
       1},
      {"9: R S0 R to R R S0",
       {0, 2, {1, 2, 1}, host_on_1},
       {8, 2, {1, 1, 2}, host_on_2},
       2,
       0.5,
       0.5},
  };
}

TEST(ReshardingCases, BytesOverTheBusiestWireAreThoseThatCountingGives) {
  const Topology topology = Topology::dense({4, 4, 4, 4, 4});
  const Shape shape = {48, 16, 16};
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const ReshardTask task{
        {DType::kI32, shape}, map_of(c.source, shape), map_of(c.destination, shape)};
    const auto busiest = [&](ReshardAlgorithm strategy) {
      const PlanStats stats = plan_stats(plan_reshard(task, topology, strategy));
      return std::max(stats.busiest_host_egress, stats.busiest_host_ingress) /
             static_cast<double>(task.type.bytes());
    };
    EXPECT_NEAR(busiest(ReshardAlgorithm::kSendRecv), c.send_recv, 1e-9);
    EXPECT_NEAR(busiest(ReshardAlgorithm::kLocalAllgather), c.local_allgather, 1e-9);
    EXPECT_NEAR(busiest(ReshardAlgorithm::kBroadcast), c.broadcast, 1e-9);
  }
}

TEST(ReshardingCases, OneDeviceToManyHostsIsAChain) {
  const Topology topology = Topology::dense({1, 2, 2, 2});
  const Shape shape = {1 << 20};
  const Region whole = Region::whole(shape);
  ShardMap everywhere{shape, {}};
  for (std::uint32_t device = 1; device < 7; ++device)
    everywhere.shards.push_back({DeviceId(device), whole});
  const ReshardTask task{{DType::kF32, shape}, {shape, {{DeviceId(0), whole}}}, everywhere};
  const PlanStats broadcast =
      plan_stats(plan_reshard(task, topology, ReshardAlgorithm::kBroadcast));
  EXPECT_EQ(broadcast.busiest_host_egress, task.type.bytes()) << "however many hosts";
  EXPECT_EQ(broadcast.bytes_between_hosts, 3 * task.type.bytes());
  EXPECT_EQ(broadcast.bytes_inside_hosts, 3 * task.type.bytes());
  EXPECT_EQ(
      plan_stats(plan_reshard(task, topology, ReshardAlgorithm::kSendRecv)).busiest_host_egress,
      6 * task.type.bytes());
}

}  // namespace
}  // namespace weft::transfer

#include "mesh/plan/observed_network.h"

#include <gtest/gtest.h>

namespace weft::mesh {
namespace {

/// Makes a plan of two hosts with two devices each, and the driver's host, at 100 MB/s.
TrainingPlan plan_of_two_hosts() {
  TrainingPlan plan;
  plan.hosts = {"a", "b", "driver"};
  plan.topology = transfer::Topology::dense({2, 2, 1});
  plan.network = transfer::Network::uniform(3, 100e6);
  return plan;
}

TEST(ObservedNetwork, AHostSendsWhatItsDevicesSendTogether) {
  const TrainingPlan plan = plan_of_two_hosts();
  const double rates[] = {20e6, 30e6, 0, 95e6};
  const transfer::Network network = observed_network(plan, rates);
  EXPECT_DOUBLE_EQ(network.hosts[0].egress(), 50e6);
  EXPECT_DOUBLE_EQ(network.hosts[0].ingress(), 100e6);
  EXPECT_EQ(network.hosts[1], plan.network.hosts[1]) << "5 % is noise";
  EXPECT_EQ(network.hosts[2], plan.network.hosts[2]) << "the driver was not seen";
  EXPECT_EQ(describe_change(plan, network),
            "a sends 47.7 MiB/s where the plan counted on 95.4 MiB/s");
}

TEST(ObservedNetwork, WithoutObservationsNothingChanges) {
  const TrainingPlan plan = plan_of_two_hosts();
  const double rates[] = {0, 0, 0, 0};
  EXPECT_EQ(observed_network(plan, rates), plan.network);
  EXPECT_EQ(observed_network(plan, {}), plan.network);
  EXPECT_EQ(describe_change(plan, plan.network), "");
}

}  // namespace
}  // namespace weft::mesh

// Tests plans of the cases that the literature and this project measure, without a network.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "transfer/reshard/plan_stats.h"
#include "transfer/reshard_cases/reshard_case.h"

namespace weft::transfer {
namespace {

constexpr double kRate = 119.5e6;

TEST(Cases, LimitsOfTheLayoutsAreThoseOfTheTable) {
  // Limit in units of the tensor's bytes over one link, and the bound that determines it.
  const std::map<std::string, std::pair<double, LimitingResource>> expected = {
      {"layout-1", {1.0, LimitingResource::kIngress}},
      {"layout-2", {1.0, LimitingResource::kIngress}},
      {"layout-3", {0.25, LimitingResource::kIngress}},
      {"layout-4", {1.0, LimitingResource::kIngress}},
      {"layout-5", {1.0, LimitingResource::kIngress}},
      {"layout-6", {0.5, LimitingResource::kIngress}},
      {"layout-7", {0.25, LimitingResource::kIngress}},
      {"layout-8", {0.334, LimitingResource::kEgress}}};
  for (const auto& [name, limit] : expected) {
    const ReshardCase c = reshard_case(name, {4'000'000, 0});
    const ReshardPlan plan =
        plan_reshard(c.tasks, c.topology, c.network(kRate), ReshardAlgorithm::kBroadcastNaive);
    EXPECT_NEAR(plan.limit.seconds * kRate / static_cast<double>(c.bytes()), limit.first, 0.0005)
        << name;
    EXPECT_EQ(plan.limit.bound, limit.second) << name;
  }
}

TEST(Cases, WeftComesWithinFivePercentOfTheLimitInEveryCaseOf64MiB) {
  for (const std::string& name : reshard_case_names()) {
    const ReshardCase c = reshard_case(name);
    const ReshardPlan plan =
        plan_reshard(c.tasks, c.topology, c.network(kRate), ReshardAlgorithm::kWeft);
    EXPECT_GE(plan.limit.seconds / plan.predicted_seconds, 0.95) << name << ": " << to_string(plan);
    const PlanStats stats = plan_stats(plan);
    EXPECT_EQ(stats.bytes_between_hosts, stats.minimum_between_hosts) << name;
  }
}

TEST(Cases, SendRecvTakesAtLeastTheMultiplesThatCountingGives) {
  const std::map<std::string, double> factor = {
      {"paper-1", 4}, {"paper-2", 4},       {"paper-3", 4},       {"paper-5", 4}, {"paper-6", 4},
      {"paper-7", 8}, {"device-to-4x2", 8}, {"device-to-1x4", 4}, {"paper-9", 4}};
  for (const auto& [name, expected] : factor) {
    const ReshardCase c = reshard_case(name);
    const auto seconds = [&](ReshardAlgorithm strategy) {
      return plan_reshard(c.tasks, c.topology, c.network(kRate), strategy).predicted_seconds;
    };
    EXPECT_GE(seconds(ReshardAlgorithm::kSendRecv) / seconds(ReshardAlgorithm::kWeft),
              expected * 0.97)
        << name;
  }
}

TEST(Cases, ASlowRelayIsPlacedLastAndASlowHolderSendsLess) {
  for (const char* name : {"slow-relay", "slow-holder"}) {
    const ReshardCase c = reshard_case(name);
    const ReshardPlan plan =
        plan_reshard(c.tasks, c.topology, c.network(kRate), ReshardAlgorithm::kWeft);
    EXPECT_GE(plan.limit.seconds / plan.predicted_seconds, 0.97) << name;
  }
  // A fifth receiver with slow links does not delay the four fast ones beyond the limit.
  ReshardCase relay = reshard_case("device-to-4x2");
  relay.links[3] = {0.4};
  Network network = relay.network(kRate);
  network.hosts[3].nics[0].ingress = kRate;  // Sending alone is slow.
  const ReshardPlan plan =
      plan_reshard(relay.tasks, relay.topology, network, ReshardAlgorithm::kWeft);
  EXPECT_GE(plan.limit.seconds / plan.predicted_seconds, 0.97);
}

// Chains are as good in a fluid model, but reach 0.87 of the limit on real links, because relays
// lag behind holders.
TEST(Cases, HoldersSendAllThatTheyHaveTimeForBeforeOthersPassDataOn) {
  const ReshardCase gpt2 = reshard_case("gpt2");
  for (const double bytes_per_second : {30e6, 120e6, 1200e6}) {
    const Network network = gpt2.network(bytes_per_second);
    const ReshardPlan plan =
        plan_reshard(gpt2.tasks, gpt2.topology, network, ReshardAlgorithm::kWeft);
    double all = 0, passed_on = 0;
    for (const Flow& flow : plan.flows) {
      for (const FlowEdge& edge : flow.edges) {
        const HostId from = gpt2.topology.host_of(edge.parent);
        if (from == gpt2.topology.host_of(edge.child)) continue;
        all += flow.bytes;
        if (from != gpt2.topology.host_of(flow.root)) passed_on += flow.bytes;
      }
    }
    // Two holders can send half of the data that four hosts want.
    EXPECT_LE(passed_on, 0.53 * all) << bytes_per_second;
    EXPECT_LE(plan.predicted_seconds, plan.limit.seconds / 0.97) << bytes_per_second;
  }
}

}  // namespace
}  // namespace weft::transfer

#include "core/network/network_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

InterfaceAddress on(const std::string& interface, const std::string& address, std::int64_t speed,
                    std::uint32_t prefix = 24) {
  return {interface, address, prefix, speed};
}
const InterfaceAddress kLoopback = on("lo", "127.0.0.1", -1, 8);

std::set<NetworkTrial> all_of(const std::vector<NetworkTrial>& trials) {
  return {trials.begin(), trials.end()};
}

/// Returns two hosts that each have a virtual network card of unknown speed.
std::vector<HostNetworks> virtual_hosts() {
  return {{"a", "10.9.0.1", "", {kLoopback, on("eth0", "10.9.0.1", -1)}},
          {"b", "10.9.0.2", "", {kLoopback, on("eth0", "10.9.0.2", -1)}}};
}
/// Returns two hosts with a fast network and a slow one. Only the slow one reaches the head.
std::vector<HostNetworks> two_networks() {
  return {{"a",
           "10.9.0.1",
           "",
           {kLoopback, on("eth0", "10.9.0.1", 1000), on("eth1", "10.8.0.1", 25000)}},
          {"b",
           "10.9.0.2",
           "",
           {kLoopback, on("eth0", "10.9.0.2", 1000), on("ens3", "10.8.0.2", 25000)}}};
}

TEST(NetworkChoice, IsTheOneThatReachesTheHead) {
  EXPECT_THAT(required_trials(virtual_hosts()), IsEmpty());
  EXPECT_THAT(choose_networks(virtual_hosts(), {}), ElementsAre("eth0", "eth0"));
}

TEST(NetworkChoice, BridgesOfContainersAreNeverUsed) {
  for (const bool both : {true, false}) {
    for (const std::int64_t speed : {-1, 1000}) {
      auto hosts = virtual_hosts();
      for (HostNetworks& host : hosts) host.addresses[1].speed_mbit = speed;
      hosts[0].addresses.insert(hosts[0].addresses.begin(), on("docker0", "172.17.0.1", 10000, 16));
      if (both) hosts[1].addresses.push_back(on("docker0", "172.17.0.1", 10000, 16));
      EXPECT_THAT(required_trials(hosts), IsEmpty());
      EXPECT_THAT(choose_networks(hosts, {}), ElementsAre("eth0", "eth0"));
    }
  }
}

TEST(NetworkChoice, AFasterNetworkServesOnceEveryTrialHasSucceeded) {
  const auto hosts = two_networks();
  const auto trials = required_trials(hosts);
  EXPECT_THAT(trials, ElementsAre(NetworkTrial{0, 1, "10.8.0.1", "10.8.0.2"},
                                  NetworkTrial{1, 0, "10.8.0.2", "10.8.0.1"}));
  EXPECT_THAT(choose_networks(hosts, all_of(trials)), ElementsAre("eth1", "ens3"));
  EXPECT_THAT(choose_networks(hosts, {}), ElementsAre("eth0", "eth0"));
  EXPECT_THAT(choose_networks(hosts, {trials[0]}), ElementsAre("eth0", "eth0"));
}

TEST(NetworkChoice, TheFastestThatWorksIsChosen) {
  auto hosts = two_networks();
  hosts[0].addresses.push_back(on("ib0", "10.7.0.1", 100000));
  hosts[1].addresses.push_back(on("ib0", "10.7.0.2", 100000));
  const auto trials = required_trials(hosts);
  EXPECT_THAT(trials, SizeIs(4));
  EXPECT_THAT(choose_networks(hosts, all_of(trials)), ElementsAre("ib0", "ib0"));
  EXPECT_THAT(choose_networks(hosts, {trials[2], trials[3]}), ElementsAre("eth1", "ens3"));
}

TEST(NetworkChoice, ANetworkOfSomeHostsDoesNotServe) {
  auto hosts = two_networks();
  hosts.push_back({"c", "10.9.0.3", "", {kLoopback, on("eth0", "10.9.0.3", 1000)}});
  EXPECT_THAT(required_trials(hosts), IsEmpty());
  EXPECT_THAT(choose_networks(hosts, {}), ElementsAre("eth0", "eth0", "eth0"));
}

TEST(NetworkChoice, AddressesThatTwoHostsHaveDoNotServe) {
  auto hosts = two_networks();
  hosts[1].addresses.push_back(on("bond0", "10.8.0.1", 25000));
  EXPECT_THAT(required_trials(hosts), IsEmpty());
}

TEST(NetworkChoice, UnknownSpeedIsNotFaster) {
  auto hosts = two_networks();
  hosts[1].addresses[2].speed_mbit = -1;
  EXPECT_THAT(required_trials(hosts), IsEmpty());
}

TEST(NetworkChoice, TheRunFileChooses) {
  auto hosts = two_networks();
  hosts[1].interface = "ens3";
  EXPECT_THAT(required_trials(hosts), IsEmpty());
  EXPECT_THAT(choose_networks(hosts, {}), ElementsAre("eth0", "ens3"));
}

TEST(NetworkChoice, OnOneMachineItIsLoopback) {
  const std::vector<InterfaceAddress> own = {kLoopback, on("eth0", "10.9.0.1", 1000),
                                             on("eth1", "10.8.0.1", 25000)};
  const std::vector<HostNetworks> hosts = {{"a", "127.0.0.1", "", own},
                                           {"b", "127.0.0.1", "", own}};
  EXPECT_THAT(required_trials(hosts), IsEmpty());
  EXPECT_THAT(choose_networks(hosts, {}), ElementsAre("lo", "lo"));
}

TEST(NetworkChoice, AnAddressOnNoInterfaceLeavesTheChoiceToTheTransport) {
  const std::vector<HostNetworks> hosts = {{"a", "192.0.2.7", "", {kLoopback}}};
  EXPECT_THAT(choose_networks(hosts, {}), ElementsAre(""));
}

TEST(NetworkChoice, TrialsGrowWithTheHostsNotTheirSquare) {
  std::vector<HostNetworks> hosts;
  for (int i = 1; i <= 100; ++i)
    hosts.push_back({std::to_string(i),
                     "10.9.0." + std::to_string(i),
                     "",
                     {on("eth0", "10.9.0." + std::to_string(i), 1000),
                      on("eth1", "10.8.0." + std::to_string(i), 10000)}});
  EXPECT_THAT(required_trials(hosts), SizeIs(400));
}

TEST(InterfaceAddresses, NameLoopback) {
  EXPECT_THAT(interface_addresses(),
              Contains(::testing::Field(&InterfaceAddress::address, "127.0.0.1")));
  EXPECT_EQ(interface_of(interface_addresses(), "127.0.0.1"), "lo");
  EXPECT_EQ(interface_of(interface_addresses(), "192.0.2.7"), "");
}

TEST(InterfaceAddresses, OfAWildcardAreThoseThatOthersReach) {
  const std::vector<InterfaceAddress> own = {kLoopback, on("lo", "::1", -1, 128),
                                             on("eth0", "10.9.0.1", -1),
                                             on("eth0", "fd00::1", -1, 64)};
  EXPECT_THAT(reachable_addresses("0.0.0.0", own), ElementsAre(own[2]));
  EXPECT_THAT(reachable_addresses("::", own), ElementsAre(own[2], own[3]));
  EXPECT_THAT(reachable_addresses("0.0.0.0", {kLoopback}), ElementsAre(kLoopback));
  EXPECT_THAT(reachable_addresses("10.9.0.1", own),
              ElementsAre(InterfaceAddress{"eth0", "10.9.0.1"}));
  EXPECT_THAT(reachable_addresses("127.0.1.1", own),
              ElementsAre(InterfaceAddress{"lo", "127.0.1.1"}));
}

TEST(InterfaceAddresses, NetworksAreComparedByTheirBits) {
  EXPECT_EQ(network_of(on("a", "10.9.1.7", -1, 16)), network_of(on("b", "10.9.200.1", -1, 16)));
  EXPECT_NE(network_of(on("a", "10.9.1.7", -1, 24)), network_of(on("b", "10.9.2.7", -1, 24)));
  EXPECT_NE(network_of(on("a", "10.9.1.7", -1, 24)), network_of(on("b", "10.9.1.7", -1, 16)));
  EXPECT_EQ(network_of(on("a", "fd00::1", -1, 64)), network_of(on("b", "fd00::2", -1, 64)));
}

}  // namespace
}  // namespace weft

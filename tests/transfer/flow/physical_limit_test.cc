#include "transfer/flow/physical_limit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::transfer {
namespace {

std::vector<HostId> hosts(std::initializer_list<std::uint32_t> ids) {
  std::vector<HostId> result;
  for (const std::uint32_t id : ids) result.push_back(HostId(id));
  return result;
}

std::uint32_t mask_of(const std::vector<HostId>& ids) {
  std::uint32_t mask = 0;
  for (const HostId host : ids) mask |= 1u << host.value();
  return mask;
}

/// Computes the limit by its formula over every set of hosts.
double by_brute_force(const std::vector<HostDemand>& data, const Network& network) {
  double seconds = 0;
  for (std::size_t h = 0; h < network.num_hosts(); ++h) {
    double wanted = 0;
    for (const HostDemand& datum : data)
      wanted += (mask_of(datum.receivers) >> h & 1) != 0 ? static_cast<double>(datum.bytes) : 0;
    seconds = std::max(seconds, wanted / network.hosts[h].ingress());
  }
  for (std::uint32_t set = 1; set < 1u << network.num_hosts(); ++set) {
    double bytes = 0, egress = 0;
    for (const HostDemand& datum : data) {
      if (datum.receivers.empty() || (mask_of(datum.holders) & ~set) != 0) continue;
      bytes += datum.bytes;
      if ((mask_of(datum.receivers) & ~set) == 0)
        bytes += datum.bytes * static_cast<double>(datum.receivers.size() - 1);
    }
    for (std::size_t h = 0; h < network.num_hosts(); ++h)
      egress += (set >> h & 1) != 0 ? network.hosts[h].egress() : 0;
    seconds = std::max(seconds, bytes / egress);
  }
  return seconds;
}

/// Checks that shares sum to the data, come from permitted hosts and respect the limit.
void check_shares(const std::vector<HostDemand>& data, const Network& network,
                  const LimitSolution& solution) {
  std::vector<double> load(network.num_hosts());
  ASSERT_EQ(solution.shares.size(), data.size());
  for (std::size_t k = 0; k < data.size(); ++k) {
    double lead = 0, all = 0;
    for (const SendShare& share : solution.shares[k]) {
      EXPECT_GE(share.lead, 0);
      EXPECT_GE(share.forward, -1e-6);
      const std::uint32_t host = 1u << share.host.value();
      EXPECT_NE((mask_of(data[k].holders) | mask_of(data[k].receivers)) & host, 0u);
      EXPECT_TRUE(share.lead == 0 || (mask_of(data[k].holders) & host) != 0);
      lead += share.lead;
      all += share.bytes();
      load[share.host.value()] += share.bytes();
    }
    const double bytes = data[k].receivers.empty() ? 0 : static_cast<double>(data[k].bytes);
    EXPECT_NEAR(lead, bytes, bytes * 1e-6);
    EXPECT_NEAR(all, bytes * static_cast<double>(data[k].receivers.size()), bytes * 1e-6);
  }
  for (std::size_t h = 0; h < load.size(); ++h)
    EXPECT_LE(load[h] / network.hosts[h].egress(), solution.limit.seconds * (1 + 1e-6))
        << "host " << h;
}

TEST(PhysicalLimit, EqualsBruteForceOverAllHostSets) {
  const std::uint64_t seed = 20261121;
  std::mt19937_64 random(seed);
  int egress_bound = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const std::size_t n = 2 + random() % 6;
    Network network;
    for (std::size_t h = 0; h < n; ++h) {
      const bool equal = round % 3 == 0;
      network.hosts.push_back(
          {{Nic{equal ? 100.0 : (10 + random() % 200), equal ? 100.0 : (10 + random() % 400)}}});
    }
    std::vector<HostDemand> data(1 + random() % 6);
    for (HostDemand& datum : data) {
      datum.bytes = random() % 5 == 0 ? random() % 10 : 1 + random() % 1000;
      datum.holders.push_back(HostId(static_cast<std::uint32_t>(random() % n)));
      for (std::uint32_t h = 0; h < n; ++h) {
        if (HostId(h) == datum.holders.front()) continue;
        const auto kind = random() % 5;
        if (kind == 0) datum.holders.push_back(HostId(h));
        else if (kind <= 2) datum.receivers.push_back(HostId(h));
      }
    }
    const LimitSolution solution = solve_limit(data, network);
    const double expected = by_brute_force(data, network);
    ASSERT_NEAR(solution.limit.seconds, expected, expected * 1e-9);
    ASSERT_EQ(solution.limit.bound == LimitingResource::kNone, expected == 0);
    egress_bound += solution.limit.bound == LimitingResource::kEgress ? 1 : 0;
    check_shares(data, network, solution);
    if (HasFailure()) return;
  }
  EXPECT_GT(egress_bound, 300);
}

TEST(PhysicalLimit, OneDatumIsTheFormulaOfKumarAndRoss) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t n = 1 + static_cast<std::uint32_t>(random() % 40);
    Network network;
    double egress = 0, ingress = 1e18;
    HostDemand datum{1000, hosts({0}), {}};
    for (std::uint32_t h = 0; h <= n; ++h) {
      network.hosts.push_back({{Nic{static_cast<double>(10 + random() % 200),
                                    static_cast<double>(10 + random() % 2000)}}});
      egress += network.hosts[h].egress();
      if (h > 0) ingress = std::min(ingress, network.hosts[h].ingress());
      if (h > 0) datum.receivers.push_back(HostId(h));
    }
    const double expected =
        std::max({1000 / network.hosts[0].egress(), 1000 / ingress, n * 1000 / egress});
    ASSERT_NEAR(physical_limit(std::vector{datum}, network).seconds, expected, expected * 1e-9)
        << "round " << round;
  }
}

TEST(PhysicalLimit, SaysWhichHostsAreTheBottleneck) {
  Network network = Network::uniform(4, 100);
  network.hosts[3].nics[0].ingress = 50;
  const std::vector<HostDemand> data = {{100, hosts({0}), hosts({1, 2, 3})}};
  const ReshardLimit ingress = physical_limit(data, network);
  EXPECT_EQ(ingress, (ReshardLimit{2, LimitingResource::kIngress, hosts({3})}));
  EXPECT_EQ(to_string(ingress), "2.0 s by ingress of host 3");
  network.hosts[0].nics[0].egress = 25;
  EXPECT_EQ(physical_limit(data, network),
            (ReshardLimit{4, LimitingResource::kEgress, hosts({0})}));
  EXPECT_EQ(physical_limit(std::vector<HostDemand>{{100, hosts({0}), {}}}, network),
            ReshardLimit{});
  EXPECT_EQ(decode<ReshardLimit>(encode(ingress)), ingress);
}

TEST(PhysicalLimit, SeveralInterfacesCountAsTheirSum) {
  Network network = Network::uniform(2, 100);
  for (auto& host : network.hosts) host.nics.push_back({50, 50});
  EXPECT_DOUBLE_EQ(
      physical_limit(std::vector<HostDemand>{{300, hosts({0}), hosts({1})}}, network).seconds, 2);
}

TEST(PhysicalLimit, InconsistentDemandsAreRefused) {
  const Network network = Network::uniform(3, 100);
  EXPECT_THAT(
      [&] {
        physical_limit(std::vector<HostDemand>{{1, {}, hosts({1})}}, network);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "has receivers, but no host holds it"));
  EXPECT_THAT(
      [&] {
        physical_limit(std::vector<HostDemand>{{1, hosts({0}), hosts({0, 1})}}, network);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "names host 0 twice"));
  EXPECT_THAT(
      [&] {
        physical_limit(std::vector<HostDemand>{{1, hosts({0}), hosts({3})}}, network);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "host 3 is not in the network"));
  EXPECT_THAT(
      [&] {
        physical_limit(std::vector<HostDemand>{{1, hosts({0}), hosts({1})}}, Network{{{}}, 0});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "host 0 has no network interface"));
}

TEST(PhysicalLimit, ThousandsOfDataOnHundredsOfHosts) {
  // FSDP between 128 and 128 hosts that all want everything, with 8 data of odd sizes per host pair
  // and one slow sender.
  Network network = Network::uniform(256, 1e9);
  network.hosts[17].nics[0].egress = 3e8;
  std::vector<HostDemand> data;
  for (std::uint32_t h = 0; h < 128; ++h) {
    HostDemand datum{1000000 + 977 * h, hosts({h}), {}};
    for (std::uint32_t d = 128; d < 256; ++d) datum.receivers.push_back(HostId(d));
    data.push_back(datum);
    for (std::uint32_t d = 128; d < 256; d += 2)
      data.push_back({5000 + h * d, hosts({h, (h + 1) % 128}), {HostId(d), HostId(d + 1)}});
  }
  const LimitSolution solution = solve_limit(data, network);
  std::vector<double> load(256);
  for (const auto& shares : solution.shares) {
    for (const SendShare& share : shares) load[share.host.value()] += share.bytes();
  }
  for (std::size_t h = 0; h < 256; ++h)
    EXPECT_LE(load[h] / network.hosts[h].egress(), solution.limit.seconds * (1 + 1e-6));
}

}  // namespace
}  // namespace weft::transfer

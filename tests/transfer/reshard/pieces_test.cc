#include "transfer/reshard/internal/pieces.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "transfer/reshard/internal/host_trees.h"

namespace weft::transfer::internal {
namespace {

std::vector<HostId> hosts(std::uint32_t begin, std::uint32_t end) {
  std::vector<HostId> result;
  for (std::uint32_t h = begin; h < end; ++h) result.push_back(HostId(h));
  return result;
}

TEST(Pieces, SampledDegreesAreWholeAverageToWhatWasAskedAndRootAtAHolder) {
  const std::uint64_t seed = 20261121;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const std::size_t holders = 1 + random() % 4, receivers = 1 + random() % 20;
    // Random degrees. The holders' sum is at least 1, and the total is the number of receivers.
    std::vector<double> degrees(holders + receivers);
    std::vector<double> weight(holders + receivers);
    for (double& w : weight) w = random() % 3 == 0 ? 0 : static_cast<double>(1 + random() % 100);
    weight[0] += 1;
    double lead = 0, all = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) (i < holders ? lead : all) += weight[i];
    all += lead;
    for (std::size_t i = 0; i < weight.size(); ++i)
      degrees[i] = (i < holders ? weight[i] / lead : 0) + weight[i] / all * (receivers - 1);
    const std::size_t copies_per_host = 1 + random() % 2;
    const std::vector<Fraction> fractions = split_degrees(degrees, holders, copies_per_host, 0);
    ASSERT_LE(fractions.size(), degrees.size());
    std::vector<double> average(degrees.size());
    for (std::size_t f = 0; f < fractions.size(); ++f) {
      const double length =
          (f + 1 < fractions.size() ? fractions[f + 1].begin : 1) - fractions[f].begin;
      std::uint32_t sum = 0, leads = 0;
      for (std::size_t i = 0; i < degrees.size(); ++i) {
        sum += fractions[f].degrees[i];
        leads += i < holders ? fractions[f].degrees[i] : 0;
        average[i] += length * fractions[f].degrees[i];
        if (copies_per_host == 1) {
          ASSERT_LT(std::abs(fractions[f].degrees[i] - degrees[i]), 1 + 1e-9)
              << "rounded up or down";
        }
      }
      ASSERT_EQ(sum, receivers);
      ASSERT_GE(leads, 1u);
    }
    for (std::size_t i = 0; i < degrees.size(); ++i) ASSERT_NEAR(average[i], degrees[i], 1e-6);
    // A tolerance gives few pieces, which are still forests.
    for (const Fraction& fraction : split_degrees(degrees, holders, copies_per_host, 0.2)) {
      ASSERT_EQ(std::accumulate(fraction.degrees.begin(), fraction.degrees.end(), 0u), receivers);
    }
    ASSERT_LE(split_degrees(degrees, holders, copies_per_host, 0.2).size(), 5u);
  }
}

TEST(Pieces, AChainEndsAtTheHostThatCannotAffordToSend) {
  Network network = Network::uniform(5, 100);
  network.hosts[2].nics[0] = {40, 40};
  const std::vector<HostDemand> data = {{1 << 20, hosts(0, 1), hosts(1, 5)}};
  const std::vector<std::vector<std::uint64_t>> cuts(1);
  const LimitSolution solution = solve_limit(data, network);
  const std::vector<Piece> pieces =
      whole_pieces(data, cuts, network, SendPreference::kEven, solution.limit.seconds);
  ASSERT_EQ(pieces.size(), 1u);
  const std::vector<double> spare(5, 0.5);
  const std::vector<HostTree> trees = build_host_trees(data[0], pieces[0], network, spare, 0);
  ASSERT_EQ(trees.size(), 1u);
  EXPECT_EQ(trees[0].root, HostId(0));
  EXPECT_EQ(trees[0].edges.back().child, HostId(2));
  for (const HostEdge& edge : trees[0].edges) EXPECT_NE(edge.parent, HostId(2));
}

TEST(Pieces, FractionsReachTheLimitWhereWholeDataCannot) {
  // Two holders with an egress of 100 and 50 send 2/3 and 1/3 to a receiver with enough ingress.
  Network network = Network::uniform(3, 100);
  network.hosts[1].nics[0].egress = 50;
  network.hosts[2].nics[0].ingress = 1000;
  const std::vector<HostDemand> data = {{30 << 20, hosts(0, 2), hosts(2, 3)}};
  const std::vector<std::vector<std::uint64_t>> cuts(1);
  const double limit = physical_limit(data, network).seconds;
  const std::vector<Piece> whole =
      whole_pieces(data, cuts, network, SendPreference::kChains, limit);
  EXPECT_NEAR(egress_seconds(data, network, whole), limit * 1.5, limit * 1e-6);
  const std::vector<Piece> fitted = fitted_pieces(data, network, whole, limit * 1.0005, 256 * 1024);
  ASSERT_EQ(fitted.size(), 2u);
  EXPECT_NEAR(egress_seconds(data, network, fitted), limit, limit * 0.001);
}

TEST(Pieces, ManyWantersGetTwoTreesWhoseInnerHostsDiffer) {
  const Network network = Network::uniform(32, 100);
  const std::vector<HostDemand> data = {{64 << 20, hosts(0, 1), hosts(1, 32)}};
  const std::vector<std::vector<std::uint64_t>> cuts(1);
  const std::vector<Piece> pieces = whole_pieces(data, cuts, network, SendPreference::kChains,
                                                 physical_limit(data, network).seconds * 1.0005);
  ASSERT_EQ(pieces.size(), 2u);
  for (std::size_t i = 1; i < 32; ++i)
    EXPECT_FALSE(pieces[0].degrees[i] > 0 && pieces[1].degrees[i] > 0) << i;
  const std::vector<double> spare(32, 0.0);
  for (const Piece& piece : pieces) {
    std::map<std::uint32_t, int> depth = {{0, 0}};
    int deepest = 0;
    const std::vector<HostTree> trees = build_host_trees(data[0], piece, network, spare, 0);
    ASSERT_EQ(trees.size(), 1u);
    for (const HostEdge& edge : trees[0].edges) {
      depth[edge.child.value()] = depth.at(edge.parent.value()) + 1;
      deepest = std::max(deepest, depth[edge.child.value()]);
    }
    EXPECT_EQ(depth.size(), 32u);
    EXPECT_LE(deepest, 6);
  }
}

}  // namespace
}  // namespace weft::transfer::internal

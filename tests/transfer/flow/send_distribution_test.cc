#include "transfer/flow/internal/send_distribution.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace weft::transfer::internal {
namespace {

TEST(SendDistribution, FitFindsSharesExactlyWhenTheTimeSuffices) {
  const std::uint64_t seed = 20261121;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const std::size_t n = 1 + random() % 6;
    std::vector<double> egress(n);
    for (double& e : egress) e = 1 + random() % 20;
    SendDistribution sends(egress);
    const std::size_t demands = 1 + random() % 6;
    std::vector<double> bytes(demands);
    for (double& b : bytes) {
      b = 1 + random() % 100;
      std::vector<std::uint32_t> hosts;
      for (std::uint32_t h = 0; h < n; ++h) {
        if (random() % 2 == 0) hosts.push_back(h);
      }
      if (hosts.empty()) hosts.push_back(static_cast<std::uint32_t>(random() % n));
      sends.add(b, hosts);
    }
    double limit = 0;
    for (std::uint32_t mask = 1; mask < 1u << n; ++mask) {
      std::vector<bool> set(n);
      for (std::size_t h = 0; h < n; ++h) set[h] = (mask >> h & 1) != 0;
      limit = std::max(limit, sends.ratio(set));
    }
    std::vector<bool> cut;
    SendDistribution tight = sends;
    ASSERT_TRUE(tight.fit(limit * (1 + 1e-9), cut));
    ASSERT_LE(tight.seconds(), limit * (1 + 1e-8));
    for (std::size_t d = 0; d < demands; ++d) {
      double sum = 0;
      for (const double amount : tight.amounts(d)) {
        ASSERT_GE(amount, 0);
        sum += amount;
      }
      ASSERT_NEAR(sum, bytes[d], bytes[d] * 1e-9);
    }
    SendDistribution short_of_time = sends;
    ASSERT_FALSE(short_of_time.fit(limit * 0.97, cut));
    ASSERT_GT(short_of_time.ratio(cut), limit * 0.97) << "the cut proves it";
    sends.level(2000, 0);
    ASSERT_NEAR(sends.seconds(), limit, limit * 1e-2) << "levelling converges to the same";
  }
}

}  // namespace
}  // namespace weft::transfer::internal

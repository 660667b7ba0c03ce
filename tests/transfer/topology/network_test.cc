#include "transfer/topology/network.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::transfer {
namespace {

TEST(Network, ObservationsChangeAHostThatIsMoreThanAFifthFasterOrSlower) {
  Network network = Network::uniform(3, 100);
  network.hosts[1].nics = {{100, 80}, {50, 50}};
  const auto seen = [&](std::uint32_t host, double rate) {
    const MeasuredEgress observed{HostId(host), rate};
    return with_measured_egress(network, std::span(&observed, 1));
  };
  EXPECT_EQ(seen(0, 119), network);
  EXPECT_EQ(seen(0, 81), network);
  EXPECT_DOUBLE_EQ(seen(0, 121).hosts[0].egress(), 121);
  EXPECT_DOUBLE_EQ(seen(2, 40).hosts[2].egress(), 40);
  EXPECT_DOUBLE_EQ(seen(2, 40).hosts[2].ingress(), 100) << "nobody has seen that";
  const Network halved = seen(1, 75);
  EXPECT_DOUBLE_EQ(halved.hosts[1].nics[0].egress, 50);
  EXPECT_DOUBLE_EQ(halved.hosts[1].nics[1].egress, 25);
  EXPECT_THAT([&] { seen(3, 75); },
              test::throws_error(ErrorCode::kInvalidArgument, "host 3 is not in the network"));
  EXPECT_THAT([&] { seen(0, 0); },
              test::throws_error(ErrorCode::kInvalidArgument, "the rate must be positive"));
}

}  // namespace
}  // namespace weft::transfer

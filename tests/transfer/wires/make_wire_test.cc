#include "transfer/wires/make_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/cluster_token.h"
#include "tests/support/thrown_error.h"

namespace weft::transfer {
namespace {

TEST(MakeWire, MakesEveryTransportThatItNames) {
  ASSERT_THAT(transport_names(), testing::Contains(kDefaultTransport));
  for (const std::string& transport : transport_names()) {
    const auto wire = make_wire(DeviceId(3), HostId(0), {transport, test::cluster_token(), "lo"});
    EXPECT_EQ(wire->self(), DeviceId(3));
    EXPECT_FALSE(wire->address().empty());
  }
}

TEST(MakeWire, AnUnknownTransportIsRefusedWithTheNamesThatThereAre) {
  EXPECT_THAT(
      [&] {
        (void)make_wire(DeviceId(0), HostId(0), {"carrier-pigeon", test::cluster_token(), "lo"});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "'carrier-pigeon'", kDefaultTransport));
}

}  // namespace
}  // namespace weft::transfer

#include "actors/net/connection_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/eventually.h"
#include "tests/support/reserved_port.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using ::testing::ElementsAre;

TEST(ConnectionProbes, SucceedOnlyAtAListeningPort) {
  const ProbeListener open("127.0.0.1");
  const test::ReservedPort closed;
  ConnectionProbes trials({{"127.0.0.1", {"127.0.0.1", open.port()}},
                           {"127.0.0.1", {"127.0.0.1", closed.port()}},
                           {"192.0.2.7", {"127.0.0.1", open.port()}},
                           {"127.0.0.1", {"a host name", open.port()}}});
  EXPECT_TRUE(test::eventually([&] { return trials.poll_once(); }));
  EXPECT_THAT(trials.reached(), ElementsAre(1, 0, 0, 0));
}

TEST(ProbeListener, AnAddressOfAnotherMachineIsRefused) {
  EXPECT_THAT([&] { ProbeListener("192.0.2.7"); },
              test::throws_error(ErrorCode::kUnavailable, "cannot listen at 192.0.2.7"));
}

}  // namespace
}  // namespace weft::actors

#include "mesh/executor/machine_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/base/error.h"
#include "mesh/executor/make_device.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

actors::HostStatus host(const std::string& name, const std::string& machine,
                        std::uint32_t devices) {
  actors::HostStatus status;
  status.offer.name = name;
  status.offer.machine = machine;
  status.offer.devices = devices;
  return status;
}

TEST(MachineSlots, CountDevicesOfAllHostsOfAMachine) {
  const std::vector<actors::HostStatus> hosts = {host("a", "left", 2), host("b", "right", 4),
                                                 host("c", "left", 1), host("d", "left", 2)};
  EXPECT_THAT(first_slot_by_host(hosts),
              testing::ElementsAre(testing::Pair("a", 0), testing::Pair("b", 0),
                                   testing::Pair("c", 2), testing::Pair("d", 3)));
}

TEST(MachineSlots, EachHasAGpuOfItsOwnUnlessTheyAreShared) {
  EXPECT_EQ(gpu_for_slot(3, 4, false), 3);
  EXPECT_EQ(gpu_for_slot(5, 4, true), 1);
  EXPECT_EQ(gpu_for_slot(1, 1, true), 0);
  EXPECT_THAT([&] { gpu_for_slot(1, 1, false); },
              test::throws_error(ErrorCode::kFailedPrecondition,
                                 "device 2 of its machine, which has 1 GPU: "
                                 "give the hosts there fewer `devices`, or say "
                                 "`share_gpu: true`"));
}

}  // namespace
}  // namespace weft::mesh

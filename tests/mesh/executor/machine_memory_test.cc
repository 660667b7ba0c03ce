#include "mesh/executor/machine_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::mesh {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(MachineMemory, CopiesMayTakeHalfOfWhatIsFree) {
  EXPECT_EQ(short_of_memory({{"a", {2 * kGiB, 4 * kGiB}}, {"b", {0, 0}}}), std::nullopt);
  EXPECT_THAT(
      short_of_memory({{"a", {kGiB, 4 * kGiB}}, {"b", {2 * kGiB + 1, 4 * kGiB}}}).value_or(""),
      ::testing::HasSubstr(
          "take 2 GiB on machine b, more than half of the 4 GiB that it has free"));
}

TEST(MachineMemory, WhoDoesNotTellIsTakenToHaveEnough) {
  EXPECT_EQ(short_of_memory({{"a", {kGiB, std::nullopt}}}), std::nullopt);
}

}  // namespace
}  // namespace weft::mesh

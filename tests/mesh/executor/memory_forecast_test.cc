#include "mesh/executor/memory_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::mesh {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(MemoryForecast, CopiesMayTakeHalfOfWhatTheRunLeavesFree) {
  EXPECT_EQ(find_memory_shortage({{"a", {4 * kGiB, 2 * kGiB, 8 * kGiB}}, {"b", {kGiB, 0, 0}}}),
            std::nullopt);
  EXPECT_THAT(
      find_memory_shortage({{"a", {0, kGiB, 4 * kGiB}}, {"b", {4 * kGiB, 2 * kGiB + 1, 8 * kGiB}}})
          .value_or(""),
      ::testing::HasSubstr("needs 2 GiB on machine b, where the run leaves 4 GiB free"));
}

TEST(MemoryForecast, ARunThatNeedsMoreThanThereIsLeavesNothing) {
  EXPECT_THAT(find_memory_shortage({{"a", {4 * kGiB, 1, 2 * kGiB}}}).value_or(""),
              ::testing::HasSubstr("where the run leaves 0 B free"));
}

TEST(MemoryForecast, AHostWithoutAReportIsAssumedToHaveEnoughMemory) {
  EXPECT_EQ(find_memory_shortage({{"a", {kGiB, kGiB, std::nullopt}}}), std::nullopt);
}

}  // namespace
}  // namespace weft::mesh

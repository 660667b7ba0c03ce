#include "mesh/runtime/staging_pool.h"

#include <gtest/gtest.h>

#include "core/cpu/cpu_device.h"

namespace weft::mesh {
namespace {

TEST(StagingPool, ReusesAReturnedBlockForASimilarSize) {
  CpuDevice device;
  StagingPool pool(device);
  std::byte* first = nullptr;
  {
    const auto block = pool.take(100000);
    EXPECT_EQ(block.span().size(), 100000u);
    EXPECT_GE(pool.bytes_in_use(), 100000u);
    first = block.span().data();
  }
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  const auto small = pool.take(10);
  EXPECT_NE(small.span().data(), first) << "much too large";
  const auto again = pool.take(90000);
  EXPECT_EQ(again.span().data(), first);
  EXPECT_EQ(again.span().size(), 90000u);
  const auto beside = pool.take(90000);
  EXPECT_NE(beside.span().data(), first);
}

TEST(StagingPool, KeepsNoMoreThanItsLimit) {
  CpuDevice device;
  StagingPool pool(device, 20000);
  {
    const auto a = pool.take(8192), b = pool.take(8192), c = pool.take(12288);
    EXPECT_EQ(pool.bytes_in_use(), 8192u + 8192 + 12288);
  }
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_LE(pool.bytes_kept(), 20000u);
  EXPECT_GT(pool.bytes_kept(), 0u);
}

}  // namespace
}  // namespace weft::mesh

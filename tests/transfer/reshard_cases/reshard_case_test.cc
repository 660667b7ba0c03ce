#include "transfer/reshard_cases/reshard_case.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"
#include "transfer/reshard/slices.h"

namespace weft::transfer {
namespace {

TEST(ReshardCase, EveryCaseIsWellFormedAndOfAboutTheSizeAskedFor) {
  for (const std::string& name : reshard_case_names()) {
    SCOPED_TRACE(name);
    for (const std::uint64_t bytes :
         {std::uint64_t{64} << 10, std::uint64_t{1} << 20, std::uint64_t{64} << 20}) {
      const ReshardCase c = reshard_case(name, {bytes, 0});
      EXPECT_EQ(c.name, name);
      EXPECT_EQ(c.links.size(), c.topology.num_hosts());
      EXPECT_NO_THROW(c.network(1e8).validate());
      if (bytes > (32 << 20)) {
        EXPECT_NEAR(static_cast<double>(c.bytes()) / static_cast<double>(bytes), 1.0, 0.1);
      }
      for (const ReshardTask& task : c.tasks)
        EXPECT_NO_THROW(cut_sum_slices(task.source, task.addends, task.destination));
    }
  }
}

TEST(ReshardCase, LayoutsGrowToAnyNumberOfHosts) {
  for (int number = 1; number <= 8; ++number) {
    for (const int hosts : {4, 5, 16, 64, 256}) {
      const ReshardCase c =
          reshard_case(fmt::format("layout-{}", number), {std::uint64_t{16} << 20, hosts});
      EXPECT_EQ(c.topology.num_hosts(), static_cast<std::size_t>(hosts)) << c.description;
    }
  }
  EXPECT_EQ(reshard_case("layout-6", {1 << 20, 2}).topology.num_hosts(), 3u)
      << "a replica takes two hosts";
}

TEST(ReshardCase, UnknownNamesAndSizesAreRefused) {
  EXPECT_THAT([&] { reshard_case("paper-8"); },
              test::throws_error(ErrorCode::kNotFound, "there is no resharding case 'paper-8'"));
  EXPECT_THAT(
      [&] {
        reshard_case("paper-7", {1 << 20, 8});
      },
      test::throws_error(ErrorCode::kInvalidArgument,
                         "only layouts can have another number of hosts"));
  EXPECT_THAT(
      [&] {
        reshard_case("layout-1", {1 << 20, 1});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "at least 2 are needed"));
}

}  // namespace
}  // namespace weft::transfer

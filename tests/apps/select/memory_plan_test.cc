#include "apps/select/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::string problem(std::uint64_t points, std::uint64_t width, std::uint64_t cap) {
  return test::error_message(ErrorCode::kInvalidArgument,
                             [&] { check_graph_memory(points, width, 64, cap); });
}

TEST(GraphMemory, NamesTheLeastCapThatWorks) {
  EXPECT_EQ(problem(1'000'000, 2048, 0), "") << "no cap";
  for (const std::uint64_t points : {3000, 99'999, 100'000, 1'000'000, 100'000'000})
    for (const std::uint64_t width : {8, 64, 2048}) {
      const std::string of_none = problem(points, width, kMiB);
      const std::string word = "set it to at least ";
      const std::uint64_t least = std::stoull(of_none.substr(of_none.find(word) + word.size()));
      EXPECT_EQ(problem(points, width, least * kMiB), "") << of_none;
      EXPECT_THAT(problem(points, width, (least - 1) * kMiB), HasSubstr(word)) << of_none;
      EXPECT_EQ(problem(points, width, 2 * least * kMiB), "") << of_none;
      EXPECT_LE(forecast_graph_memory(points, width, 64, least * kMiB), least * kMiB);
      // The memory budget for cells fits below the cap, beside the exchange.
      const GraphMemory told = graph_memory(2 * least * kMiB);
      EXPECT_LT(2 * told.cells + told.exchange, 2 * least * kMiB);
    }
  // 64 MiB of samples, plus their centroids.
  EXPECT_GT(forecast_graph_memory(1'000'000, 2048, 64, 256 * kMiB), 100 * kMiB);
  EXPECT_LT(forecast_graph_memory(1'000'000, 64, 64, 64 * kMiB), 64 * kMiB);
}

}  // namespace
}  // namespace weft::apps

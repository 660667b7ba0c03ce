#include "apps/reshard_bench/bench_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/reshard_bench/bench_case.h"
#include "apps/reshard_bench/ratio_plot.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

using ::testing::HasSubstr;

BenchResult result_of(const std::string& strategy, std::vector<double> seconds) {
  BenchResult result;
  result.case_name = "one";
  result.strategy = strategy;
  result.bytes = 1 << 30;
  result.hosts = 2;
  result.link_bytes_per_second = 1e8;
  result.seconds = std::move(seconds);
  result.limit_seconds = 1.9;
  result.limit_by = "1.9 s by ingress of host 1";
  result.plan_bytes = result.minimum_bytes = 1 << 30;
  result.wire_bytes = 1.01 * (1 << 30);
  result.cpu_seconds = 0.5;
  return result;
}

TEST(BenchResult, JsonHasTheKeysThatScriptsReadFor) {
  const auto json = nlohmann::json::parse(to_json({result_of("fast", {2.2, 2.0, 1.9}), result_of("slow", {8, 4})}));
  ASSERT_EQ(json.size(), 1u);
  const auto& fast = json["cases"][0];
  EXPECT_EQ(fast["case"], "one");
  EXPECT_EQ(fast["strategy"], "fast");
  EXPECT_EQ(fast["bytes"], 1 << 30);
  EXPECT_DOUBLE_EQ(fast["seconds"]["min"], 1.9);
  EXPECT_DOUBLE_EQ(fast["seconds"]["median"], 2.0);
  EXPECT_DOUBLE_EQ(fast["seconds"]["max"], 2.2);
  EXPECT_DOUBLE_EQ(fast["ratio_to_limit"], 0.95);
  EXPECT_NEAR(fast["wire_over_minimum"], 1.01, 1e-6);
  EXPECT_DOUBLE_EQ(fast["cpu_seconds_per_gib"], 0.5);
  EXPECT_DOUBLE_EQ(fast["times_as_fast_as"]["slow"], 3.0);
  EXPECT_DOUBLE_EQ(json["cases"][1]["seconds"]["median"], 6.0);
}

TEST(BenchResult, TableAndPictureNameEveryStrategy) {
  const std::vector<BenchResult> results = {result_of("fast", {2.0}), result_of("slow", {8})};
  EXPECT_THAT(to_table(results), HasSubstr("  slow        8000.0   8000.0   8000.0   0.237    1.010    0.50"));
  EXPECT_THAT(draw_ratios(results, "Title").str(), ::testing::AllOf(HasSubstr("Title"), HasSubstr("one, slow: 0.237")));
}

TEST(BenchCases, FitTheHostsThatThereAre) {
  BenchOptions options;
  options.hosts = 5;
  for (const BenchCase& bench : bench_cases(options)) EXPECT_LE(bench.num_hosts(), 5u) << bench.reshard.name;
  options.cases = {"paper-3", "small-64K"};
  EXPECT_EQ(bench_cases(options).at(1).reshard.bytes(), 64u << 10);
  options.cases = {"nothing"};
  EXPECT_THROW(bench_cases(options), Error);
}

}  // namespace
}  // namespace weft::apps

#include "apps/bench/reshard/bench_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/bench/reshard/bench_case.h"
#include "apps/bench/reshard/ratio_plot.h"
#include "core/base/error.h"
#include "tests/support/thrown_error.h"

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
  const auto json = nlohmann::json::parse(
      to_json({result_of("fast", {2.2, 2.0, 1.9}), result_of("slow", {8, 4})}));
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
  EXPECT_THAT(
      to_table(results),
      HasSubstr("  slow        8000.0   8000.0   8000.0   0.237     1.000    1.010    0.50"));
  EXPECT_THAT(draw_ratios(results, "Title")->str(),
              ::testing::AllOf(HasSubstr("Title"), HasSubstr("one, slow: 0.237")));
}

TEST(BenchResult, ACaseThatWasOnlyPlannedHasAForecastAndNoTimes) {
  BenchResult planned = result_of("planned", {});
  planned.predicted_seconds = 3.8;
  const std::vector<BenchResult> results = {result_of("fast", {2.0}), planned};
  EXPECT_THAT(to_table(results), HasSubstr("0.500  planned only"));
  const auto json = nlohmann::json::parse(to_json(results));
  EXPECT_DOUBLE_EQ(json["cases"][1]["forecast"], 0.5);
  EXPECT_FALSE(json["cases"][1].contains("seconds"));
  EXPECT_TRUE(json["cases"][0]["times_as_fast_as"].empty());
  EXPECT_THAT(draw_ratios(results, "Title")->str(), ::testing::Not(HasSubstr("planned")));
}

TEST(BenchResult, SummaryHasARowPerCaseWithTheBestOther) {
  const std::string summary = to_summary(
      {result_of("fast", {2.0}), result_of("slow", {8}), result_of("middle", {4})}, "fast");
  EXPECT_THAT(summary, HasSubstr("| one |  | 2 | 1.900 | 1.000 | 0.950 | middle 0.475 | 2.000 |"));
}

ReshardRequest own_task() {
  ReshardRequest task;
  task.shape = "331x31x30";
  task.from = "4x1:R,S0,R";
  task.to = "3x2:R,R,S0";
  return task;
}

TEST(BenchCases, ATaskOfTheUserIsOneMoreCase) {
  ReshardBenchOptions options;
  options.hosts = 2;  // limits the built-in cases; a user's task takes the hosts it needs
  options.task = own_task();
  options.task->link_rates = {"2=1gbit", "6=100mbit"};
  const std::vector<BenchCase> cases = bench_cases(options);
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].num_hosts(), 7u);
  EXPECT_EQ(cases[0].rate_bits, rate_for(7));
  EXPECT_EQ(cases[0].link_bits(0, 0), rate_for(7));
  EXPECT_EQ(cases[0].link_bits(2, 0), 1'000'000'000u);
  EXPECT_EQ(cases[0].link_bits(6, 0), 100'000'000u);
  EXPECT_EQ(cases[0].reshard.description,
            "--rate 250mbit --shape 331x31x30 --from 4x1:R,S0,R --to 3x2:R,R,S0 --link 2=1gbit "
            "--link 6=100mbit");
  options.rate_bits = 50'000'000;
  EXPECT_EQ(bench_cases(options)[0].link_bits(2, 0), 1'000'000'000u);
  EXPECT_EQ(bench_cases(options)[0].link_bits(1, 0), 50'000'000u);
  options.cases = {"paper-7"};
  options.hosts = 8;
  EXPECT_EQ(bench_cases(options).size(), 2u);
}

TEST(BenchCases, AnImpossibleTaskIsRefusedWithTheLimits) {
  const auto refusal = [](const ReshardRequest& task) {
    ReshardBenchOptions options;
    options.task = task;
    return test::error_of([&] { bench_cases(options); }).message();
  };
  ReshardRequest task = own_task();
  task.to = "99x1:S0,R,R";
  EXPECT_THAT(
      refusal(task),
      HasSubstr("needs 103 hosts with 103 devices in all; the benchmark makes at most 64 hosts"));
  task = own_task();
  task.shape = "4096x131072x1024";
  EXPECT_THAT(refusal(task), HasSubstr("take a smaller --shape"));
  task = own_task();
  task.from.clear();
  EXPECT_THAT(refusal(task), HasSubstr("--from is missing"));
}

TEST(BenchCases, RandomTasksAreTheSameInOneRangeAndInPieces) {
  ReshardBenchOptions options;
  options.random = RandomTasks{0, 9};
  const std::vector<BenchCase> all = bench_cases(options);
  ASSERT_EQ(all.size(), 10u);
  for (const BenchCase& one : all) {
    double links = 0;
    for (const auto& host : one.reshard.links) links += host.at(0);
    EXPECT_LE(links * static_cast<double>(one.rate_bits), 2.01e9) << one.reshard.description;
  }
  options.random = RandomTasks{7, 7};
  EXPECT_EQ(bench_cases(options).at(0).reshard.description, all[7].reshard.description);
  EXPECT_EQ(bench_cases(options).at(0).reshard.name, "random-7");
}

TEST(BenchCases, FitTheHostsThatThereAre) {
  ReshardBenchOptions options;
  options.hosts = 5;
  for (const BenchCase& bench : bench_cases(options))
    EXPECT_LE(bench.num_hosts(), 5u) << bench.reshard.name;
  options.cases = {"paper-3", "small-64K"};
  EXPECT_EQ(bench_cases(options).at(1).reshard.bytes(), 64u << 10);
  options.cases = {"nothing"};
  EXPECT_THAT([&] { bench_cases(options); },
              test::throws_error(ErrorCode::kInvalidArgument, "there is no case 'nothing'"));
}

}  // namespace
}  // namespace weft::apps

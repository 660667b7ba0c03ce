#include "apps/bench/pipeline/bench_result.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/bench/pipeline/arm.h"
#include "apps/bench/pipeline/bench_case.h"
#include "apps/bench/pipeline/bench_plot.h"
#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using mesh::Lowering;
using mesh::Payload;
using transfer::ReshardAlgorithm;

ArmResult measured(const Arm& arm, std::vector<double> seconds, double predicted = 0) {
  ArmResult result;
  result.arm = arm;
  result.seconds = std::move(seconds);
  result.predicted_seconds = predicted;
  result.busiest_seconds = 0.75;
  result.peak_bytes = 3 << 20;
  result.actions = 16;
  return result;
}

WorkloadResult example() {
  WorkloadResult result;
  result.name = "example";
  result.description = "two stages";
  result.emulated = true;
  result.link_bits = 400'000'000;
  result.stages = 2;
  result.microbatches = 8;
  result.rows_per_step = 64;
  result.flops_per_step = 5e12;
  result.time_scale = 20;
  result.byte_scale = 100;
  result.unhidable_seconds = 0.05;
  result.arms = {
      measured(baseline_arm(), {1.6, 1.7, 1.5}, 1.6),
      measured({"eager-1f1b", ReshardAlgorithm::kWeft, Lowering::kLanes}, {1.1, 1.0, 1.05}, 1.0),
      measured({"zb-h1", ReshardAlgorithm::kWeft, Lowering::kLanes}, {1.0, 1.02, 1.01}),
      measured({"eager-1f1b", ReshardAlgorithm::kBroadcast, Lowering::kLanes}, {0.9, 0.9, 0.9}),
      measured({"zb-h1", ReshardAlgorithm::kWeft, Lowering::kLanes, Payload::kSignals},
               {0.95, 0.96, 0.94})};
  result.peers = {
      {"PyTorch GPipe", 2.02}, {"PyTorch 1F1B", 2.5}, {"PyTorch, compute alone", 0.9, false}};
  return result;
}

TEST(WorkloadResult, ComparesWeftsBestWithBaselineAndReference) {
  const WorkloadResult result = example();
  EXPECT_EQ(result.baseline()->arm, baseline_arm());
  // The broadcast arm is faster but does not count, as it is not Weft's strategy.
  EXPECT_EQ(result.best()->arm.schedule, "zb-h1");
  EXPECT_FALSE(result.best()->arm.is_signal());
  EXPECT_DOUBLE_EQ(result.reference_seconds(), 1.0);
  EXPECT_DOUBLE_EQ(result.best()->bubble(), 1 - 0.75 / 1.01);
  EXPECT_DOUBLE_EQ(result.arms[1].prediction_error(), 1.05 / 1.0 - 1);
}

TEST(WorkloadResult, TheTableShowsTheResults) {
  const std::string table = to_table(example());
  for (const char* part :
       {"example (emulated devices): two stages", "links of 400 Mbit/s", "1 s stands for 20 s",
        "300 MiB", "Send/Recv", "AlpaComm", "+5.0 %",
        "1.58 times as fast as send_recv, blocking, 1f1b", "0.990 of the reference 1.0 s",
        "0.743 of the bound 750.0 ms", "3.168 rows/s",
        "PyTorch GPipe: 2.0 s, Weft 2.00 times as fast as the best of them",
        "compute alone: 900.0 ms\n"})
    EXPECT_NE(table.find(part), std::string::npos) << part << " is not in\n" << table;
}

TEST(WorkloadResult, PeersAreAlsoJudgedAtEqualMemory) {
  WorkloadResult result = example();
  Arm frugal{"auto", ReshardAlgorithm::kWeft, Lowering::kLanes};
  frugal.memory_limit_of = "eager-1f1b";
  result.arms.push_back(measured(frugal, {1.25}));
  EXPECT_EQ(result.best()->arm.schedule, "zb-h1");
  const std::string table = to_table(result);
  for (const char* part :
       {"auto in eager-1f1b's memory", "Weft 2.00 times as fast (1.62 in eager-1f1b's memory)"})
    EXPECT_NE(table.find(part), std::string::npos) << part << " is not in\n" << table;
}

TEST(WorkloadResult, JsonHasEveryArm) {
  const auto document = nlohmann::json::parse(to_json({example()}));
  const auto& workload = document.at("workloads").at(0);
  EXPECT_EQ(workload.at("arms").size(), 5u);
  EXPECT_EQ(workload.at("arms").at(0).at("paper_name"), "Send/Recv");
  EXPECT_DOUBLE_EQ(workload.at("arms").at(2).at("speed_up"), 1.6 / 1.01);
  EXPECT_EQ(workload.at("arms").at(4).at("transfers"), "signals only");
  EXPECT_DOUBLE_EQ(workload.at("reference_seconds"), 1.0);
  EXPECT_DOUBLE_EQ(workload.at("bound_seconds"), 0.75);
  EXPECT_EQ(workload.at("peers").at(1).at("name"), "PyTorch 1F1B");
}

TEST(WorkloadResult, BoundIsTheBusiestDeviceOrTheBusiestLinkWhicheverIsLonger) {
  WorkloadResult result = example();
  for (ArmResult& arm : result.arms) arm.link_seconds = 0.9;
  EXPECT_DOUBLE_EQ(result.bound_seconds(), 0.9);
  // An arm with another strategy moves fewer bytes. The bound is the smallest one of all arms.
  result.arms[3].link_seconds = 0.8;
  EXPECT_DOUBLE_EQ(result.bound_seconds(), 0.8);
  // Arms that send signals move no tensors and have no bound.
  result.arms[4].busiest_seconds = 0.1;
  result.arms[4].link_seconds = 0;
  EXPECT_DOUBLE_EQ(result.bound_seconds(), 0.8);
}

TEST(WorkloadResult, WithoutSignalsThereIsNoReference) {
  WorkloadResult result = example();
  result.arms.pop_back();
  EXPECT_EQ(result.reference_seconds(), 0);
  EXPECT_EQ(to_table(result).find("of the reference"), std::string::npos);
  EXPECT_NE(draw_speeds({result}, "title").str().find("example (emulated)"), std::string::npos);
}

TEST(Arms, GridHasEveryCombinationOnce) {
  const std::vector<std::string> schedules = {"1f1b", "eager-1f1b", "zb-h1", "auto"};
  const std::vector<Arm> grid = all_arms(schedules);
  EXPECT_EQ(grid.size(), 4u * 2 * 4 + 4);
  EXPECT_NE(std::find(grid.begin(), grid.end(), baseline_arm()), grid.end());
  const std::vector<Arm> bundles = paper_arms(schedules);
  EXPECT_EQ(bundles.size(), 5u + 4 + 4);
  for (const Arm& arm : bundles)
    EXPECT_NE(std::find(grid.begin(), grid.end(), arm), grid.end()) << to_string(arm);
}

TEST(PipelineCases, AreFoundByNameAndGroup) {
  PipelineBenchOptions options;
  const std::size_t all = pipeline_cases(options).size();
  options.cases = {"gpt-real-0.5", "sweep-4"};
  const std::vector<PipelineCase> cases = pipeline_cases(options);
  ASSERT_EQ(cases.size(), 5u);
  EXPECT_EQ(cases[0].model.name, "gpt-real");
  EXPECT_EQ(*cases[0].transfer_ratio, 0.5);
  EXPECT_TRUE(cases[0].with_peer);
  EXPECT_TRUE(std::ranges::any_of(
      cases[0].arms, [](const Arm& arm) { return arm.memory_limit_of == "eager-1f1b"; }));
  EXPECT_LT(all, all_pipeline_cases(options).size()) << "some are only run when asked for";
  options.cases = {"gpt-9b"};
  EXPECT_THAT([&] { pipeline_cases(options); },
              test::throws_error(ErrorCode::kInvalidArgument, "gpt-2.6b"));
}

TEST(SweepPlot, DrawsALinePerSchedule) {
  std::vector<WorkloadResult> sweep;
  for (const double ratio : {0.5, 0.25}) {
    WorkloadResult result = example();
    result.transfer_ratio = ratio;
    sweep.push_back(result);
  }
  const std::string svg = draw_sweep(sweep, "title").str();
  std::size_t lines = 0;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos;
       at = svg.find("<polyline", at + 1))
    ++lines;
  EXPECT_EQ(lines, 3u) << svg;
  // A duplicate attribute makes viewers show nothing.
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const std::string element = svg.substr(at, svg.find('>', at) - at);
    EXPECT_EQ(element.find(" fill="), element.rfind(" fill=")) << element;
  }
}

}  // namespace
}  // namespace weft::apps

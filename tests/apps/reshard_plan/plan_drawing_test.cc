#include "apps/reshard_plan/plan_drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/reshard_plan/link_loads.h"
#include "apps/reshard_plan/plan_text.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Planned {
  ReshardProblem problem;
  transfer::ReshardPlan plan;
};

/// One device to replicas on two hosts of two devices; the second host's link is slow.
Planned planned() {
  Planned planned{parse_reshard_request({"1024x256", "f32", "1x1:R,R", "2x2:R,R", {}, "1gbit", {"2=100mbit"}}), {}};
  planned.plan =
      transfer::plan_reshard(planned.problem.task, planned.problem.topology, planned.problem.network, transfer::Strategy::kWeft);
  return planned;
}

TEST(LinkLoads, CountWhatCrossesHosts) {
  const Planned case_ = planned();
  const auto loads = link_loads(case_.plan, case_.problem.network);
  ASSERT_EQ(loads.size(), 3u);
  EXPECT_EQ(loads[0].bytes_in, 0u);
  EXPECT_EQ(loads[1].bytes_in, 1u << 20);
  EXPECT_EQ(loads[2].bytes_in, 1u << 20);
  EXPECT_EQ(loads[0].bytes_out + loads[1].bytes_out + loads[2].bytes_out, 2u << 20);
  EXPECT_DOUBLE_EQ(loads[2].seconds_in, (1 << 20) / 12.5e6);
}

TEST(PlanText, SaysLimitLoadsAndTrees) {
  const Planned case_ = planned();
  const std::string text = describe_plan(case_.problem, case_.plan, 0.001);
  EXPECT_THAT(text, HasSubstr("1 MiB  [0:1024,0:256]  held by 0, wanted by 2-5"));
  EXPECT_THAT(text, HasSubstr("host   2  out        0 B"));
  EXPECT_THAT(text, HasSubstr("2 MiB between hosts (no plan can do with less than 2 MiB), 2 MiB inside hosts"));
}

TEST(PlanText, JsonHasEveryFlow) {
  const Planned case_ = planned();
  const auto json = to_json(case_.problem, case_.plan, 0.001);
  EXPECT_EQ(json.at("flows").size(), case_.plan.flows.size());
  EXPECT_EQ(json.at("bytes_between_hosts"), 2u << 20);
  EXPECT_EQ(json.at("hosts").size(), 3u);
  EXPECT_GT(json.at("ratio_to_limit").get<double>(), 0.5);
}

TEST(PlanDrawing, ShowsEveryHostAndItsLinks) {
  const Planned case_ = planned();
  const std::string svg = draw_plan(case_.plan, case_.problem.network).str();
  for (const char* part : {"host 0", "host 1", "host 2", "predicted", "device 0: holds", "device 5: wants"})
    EXPECT_THAT(svg, HasSubstr(part));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace weft::apps

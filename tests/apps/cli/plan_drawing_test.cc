#include "apps/cli/plan_drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "apps/cli/link_loads.h"
#include "apps/cli/plan_text.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Planned {
  ReshardProblem problem;
  transfer::ReshardPlan plan;
};

/// Returns a plan from one device to replicas on two hosts of two devices. The second host has a
/// slow link.
Planned planned() {
  Planned planned{
      parse_reshard_request({"1024x256", "f32", "1x1:R,R", "2x2:R,R", {}, "1gbit", {"2=100mbit"}}),
      {}};
  planned.plan = transfer::plan_reshard(planned.problem.task, planned.problem.topology,
                                        planned.problem.network, transfer::ReshardAlgorithm::kWeft);
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
  EXPECT_THAT(
      text,
      HasSubstr("2 MiB between hosts (no plan can do with less than 2 MiB), 2 MiB inside hosts"));
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
  for (const char* part :
       {"host 0", "host 1", "host 2", "predicted", "device 0: holds", "device 5: wants"})
    EXPECT_THAT(svg, HasSubstr(part));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(PlanDrawing, LabelsLieApartAndNothingIsLeftOut) {
  const ReshardProblem problem =
      parse_reshard_request({"331x331x300", "f32", "4x1:R,S0,R", "3x1:R,R,S0", {}, "10gbit", {}});
  const transfer::ReshardPlan plan = transfer::plan_reshard(
      problem.task, problem.topology, problem.network, transfer::ReshardAlgorithm::kWeft);
  const std::string svg = draw_plan(plan, problem.network).str();
  // A white plate behind each label.
  std::vector<std::array<double, 4>> plates;
  const std::regex plate(
      R"(<rect x='([-0-9.]+)' y='([-0-9.]+)' width='([0-9.]+)' height='([0-9.]+)' fill='#fff' )"
      R"(fill-opacity)");
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), plate); at != std::sregex_iterator();
       ++at)
    plates.push_back(
        {std::stod((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3]), std::stod((*at)[4])});
  EXPECT_GT(plates.size(), 6u);
  for (std::size_t i = 0; i < plates.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto [ax, ay, aw, ah] = plates[i];
      const auto [bx, by, bw, bh] = plates[j];
      EXPECT_FALSE(ax < bx + bw && bx < ax + aw && ay < by + bh && by < ay + ah)
          << i << " and " << j;
    }
  }
}

TEST(PlanDrawing, ShowsWhatDevicesOfAHostPassOnToEachOther) {
  const Planned case_ = planned();
  std::size_t inside = 0, between = 0;
  std::set<std::tuple<std::uint32_t, transfer::HostId, transfer::HostId>> hosts;
  for (const transfer::Flow& flow : case_.plan.flows) {
    for (const transfer::FlowEdge& edge : flow.edges) {
      const auto from = case_.plan.topology.host_of(edge.parent),
                 to = case_.plan.topology.host_of(edge.child);
      if (from == to) ++inside;
      else between += hosts.insert({flow.id.value(), from, to}).second ? 1 : 0;
    }
  }
  ASSERT_GT(inside, 0u);
  const std::string svg = draw_plan(case_.plan, case_.problem.network).str();
  // Each transfer is drawn as a line and an arrowhead.
  std::size_t lines = 0;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos;
       at = svg.find("<polyline", at + 1))
    ++lines;
  EXPECT_EQ(lines, 2 * (inside + between));
}

}  // namespace
}  // namespace weft::apps

#include "mesh/schedule/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

ScheduleReport report_of(const std::string& rows, const ScheduleLimits& limits = {}) {
  const Schedule schedule = read_schedule(rows, "test").schedule;
  return check_schedule(schedule, uniform_costs(schedule.stages, {}), limits);
}

void expect_fails(const ScheduleReport& report, ScheduleProperty property, const std::string& why) {
  EXPECT_EQ(report.of(property).holds, false) << to_string(property);
  EXPECT_THAT(report.of(property).detail, HasSubstr(why));
  EXPECT_FALSE(report.holds());
}

TEST(CheckSchedule, EveryNamedScheduleHoldsInAllTen) {
  for (const NamedSchedule& named : named_schedules()) {
    for (const auto& [p, m] : {std::pair(1, 1), std::pair(1, 4), std::pair(2, 1), std::pair(4, 3),
                               std::pair(4, 8), std::pair(3, 7)}) {
      const Schedule schedule = make_schedule({std::string(named.name), p, m, 0, 0});
      const ScheduleReport report =
          check_schedule(schedule, uniform_costs(schedule.stages, {}, 0.25));
      for (const Finding& finding : report.findings) {
        EXPECT_EQ(finding.holds, true) << named.name << " p=" << p << " m=" << m << " "
                                       << to_string(finding.property) << ": " << finding.detail;
      }
    }
  }
}

TEST(CheckSchedule, Incomplete) {
  expect_fails(report_of("0F0,0I0\n"), ScheduleProperty::kComplete,
               "needs either B, or one I and one W");
  EXPECT_FALSE(report_of("0F0,0I0\n").of(ScheduleProperty::kMemory).holds.has_value());
  expect_fails(report_of("0F0,0B0,0B0\n"), ScheduleProperty::kComplete, "0B0 occurs twice");
}

TEST(CheckSchedule, LocalOrder) {
  const ScheduleReport report = report_of("0F0,0W0,0I0\n");
  expect_fails(report, ScheduleProperty::kLocalOrder,
               "actor 0: 0W0 comes before 0I0, on which it depends");
  expect_fails(report, ScheduleProperty::kAcyclic, "0W0 of actor 0 waits for 0I0");
}

TEST(CheckSchedule, Cycle) {
  const ScheduleReport report = report_of("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  EXPECT_EQ(report.of(ScheduleProperty::kLocalOrder).holds, true);
  expect_fails(report, ScheduleProperty::kAcyclic,
               "0B0 of actor 0 waits for 1B0, 1B0 of actor 1 comes after 1F1");
}

TEST(CheckSchedule, EdgeOutOfOrderAndSoDeadlockedWithoutTags) {
  const ScheduleReport report = report_of("0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n");
  EXPECT_EQ(report.of(ScheduleProperty::kAcyclic).holds, true);
  expect_fails(report, ScheduleProperty::kEdgeMonotone,
               "activations over edge 0 -> 1: stage 0 takes microbatch 0 where stage 1 takes 1");
  expect_fails(report, ScheduleProperty::kDeadlockFree, "0SEND_F0 on 0 = 1RECV_F0 on 1");
}

TEST(CheckSchedule, Memory) {
  const ScheduleReport report = report_of("0F0,0F1,0F2,0B0,0B1,0B2\n", {.memory_of_actor = {2}});
  expect_fails(report, ScheduleProperty::kMemory,
               "actor 0 needs memory 3 during 0F2, but its limit is 2");
  EXPECT_TRUE(report_of("0F0,0F1,0F2,0B0,0B1,0B2\n", {.memory_of_actor = {3}}).holds());
}

TEST(CheckSchedule, Bubble) {
  const ScheduleLimits limits{.memory_of_actor = {}, .makespan_bubble = 0.2};
  expect_fails(report_of("0F0,0B0\n1F0,1B0\n", limits), ScheduleProperty::kBubble,
               "50.00 % of the makespan, span bubble 3; the limit is 20.00 %");
}

TEST(CheckSchedule, SumsOutOfOrder) {
  // PyTorch's breadth-first schedule sums in this order.
  expect_fails(report_of("0F0,0F1,0B1,0B0\n"), ScheduleProperty::kSumOrder,
               "0B0 comes after the weight gradient of microbatch 1");
}

TEST(CheckSchedule, LeftOverMemoryIsFoundInASimulation) {
  // A complete schedule cannot leave activations behind, but forwards alone do.
  const ScheduleSimulation forwards = simulate(make_forward_schedule(1, 2), uniform_costs(1, {}));
  EXPECT_EQ(find_memory_leak(forwards), "actor 0 still holds 2 at the end");
  ScheduleSimulation twice = forwards;
  twice.actors[0].memory.push_back({2, -1});
  EXPECT_THAT(find_memory_leak(twice),
              HasSubstr("actor 0 frees more memory than it holds, at time 2"));
}

TEST(CheckSchedule, CountsMustFit) {
  const Schedule schedule = make_schedule("1f1b", 2, 2);
  EXPECT_THAT(
      [&] { check_schedule(schedule, uniform_costs(3, {})); },
      test::throws_error(ErrorCode::kInvalidArgument, "has 2 stages, but costs are given for 3"));
  EXPECT_THAT(
      [&] { check_schedule(schedule, uniform_costs(2, {}), {.memory_of_actor = {1}}); },
      test::throws_error(ErrorCode::kInvalidArgument, "has 2 actors, but 1 have a memory cap"));
}

}  // namespace
}  // namespace weft::mesh

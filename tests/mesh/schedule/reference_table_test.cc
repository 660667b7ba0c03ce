// Tests simulated schedules against known values. F = I = W = 1, B = 2, transfers take no time, and
// an actor's stages together are as large as one stage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/mesh/schedule/play.h"

namespace weft::mesh {
namespace {

using test::play;

struct Row {
  ScheduleRequest request;
  double makespan;
  double bubble;
  double rate;
  double span_bubble;
  std::vector<double> peaks;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.request.name << " p=" << row.request.actors << " m=" << row.request.microbatches
       << " v=" << row.request.chunks;
}

class ReferenceTable : public testing::TestWithParam<Row> {};

TEST_P(ReferenceTable, IsMetExactly) {
  const Row& row = GetParam();
  // The reference runs the members of compounds one after the other.
  Schedule schedule = make_schedule(row.request);
  for (std::vector<Action>& actions : schedule.actors)
    for (Action& action : actions) action.joins_previous = false;
  const ScheduleSimulation simulation = play(schedule);
  EXPECT_DOUBLE_EQ(simulation.makespan, row.makespan);
  EXPECT_DOUBLE_EQ(simulation.makespan_bubble, row.bubble);
  EXPECT_NEAR(simulation.bubble_rate(), row.rate, 0.5e-4);
  EXPECT_DOUBLE_EQ(simulation.span_bubble, row.span_bubble);
  std::vector<double> peaks;
  for (const SimulatedActor& actor : simulation.actors) peaks.push_back(actor.peak);
  EXPECT_EQ(peaks, row.peaks);
  EXPECT_DOUBLE_EQ(simulation.exposed_transfer_time, 0);
}

std::vector<double> each(int actors, double peak) { return std::vector<double>(actors, peak); }

INSTANTIATE_TEST_SUITE_P(
    All, ReferenceTable,
    testing::Values(
        Row{{"gpipe", 4, 8, 0, 0}, 33, 9, .2727, 9, {8, 8, 8, 8}},
        Row{{"1f1b", 4, 8, 0, 0}, 33, 9, .2727, 9, {4, 3, 2, 1}},
        Row{{"eager-1f1b", 4, 8, 0, 0}, 33, 9, .2727, 9, {7, 5, 3, 1}},
        Row{{"interleaved-1f1b", 4, 8, 2, 0}, 28.5, 4.5, .1579, 4.5, {5.5, 4.5, 3.5, 2.5}},
        Row{{"interleaved-1f1b", 4, 8, 4, 0}, 26.25, 2.25, .0857, 2.25, {4.75, 4.25, 3.75, 3.25}},
        Row{{"breadth-first", 4, 8, 2, 0}, 28.5, 4.5, .1579, 4.5, each(4, 8)},
        Row{{"zb-h1", 4, 8, 0, 0}, 27, 3, .1111, 3, each(4, 4)},
        Row{{"zb-h2", 4, 8, 0, 0}, 27, 3, .1111, 0, each(4, 7)},
        Row{{"zb-v", 4, 8, 0, 0}, 25.5, 1.5, .0588, 0, each(4, 4)},
        Row{{"1f1b", 4, 16, 0, 0}, 57, 9, .1579, 9, {4, 3, 2, 1}},
        Row{{"gpipe", 4, 16, 0, 0}, 57, 9, .1579, 9, each(4, 16)},
        Row{{"eager-1f1b", 4, 16, 0, 0}, 57, 9, .1579, 9, {7, 5, 3, 1}},
        Row{{"v-half", 4, 16, 0, 0}, 50.5, 2.5, .0495, 2.5, each(4, 3)},
        Row{{"v-min", 4, 16, 0, 0}, 53.5, 5.5, .1028, 5.5, each(4, 2)},
        Row{{"1f1b", 8, 32, 0, 0}, 117, 21, .1795, 21, {8, 7, 6, 5, 4, 3, 2, 1}},
        Row{{"eager-1f1b", 8, 32, 0, 0}, 117, 21, .1795, 21, {15, 13, 11, 9, 7, 5, 3, 1}},
        Row{{"interleaved-1f1b", 8, 32, 2, 0},
            106.5,
            10.5,
            .0986,
            10.5,
            {11.5, 10.5, 9.5, 8.5, 7.5, 6.5, 5.5, 4.5}},
        Row{{"interleaved-1f1b", 8, 32, 4, 0},
            101.25,
            5.25,
            .0519,
            5.25,
            {9.75, 9.25, 8.75, 8.25, 7.75, 7.25, 6.75, 6.25}},
        Row{{"zb-h1", 8, 32, 0, 0}, 103, 7, .0680, 7, each(8, 8)},
        Row{{"zb-h2", 8, 32, 0, 0}, 103, 7, .0680, 0, each(8, 15)},
        Row{{"zb-v", 8, 32, 0, 0}, 99.5, 3.5, .0352, 0, each(8, 8)},
        Row{{"v-half", 8, 32, 0, 0}, 104.5, 8.5, .0813, 8.5, each(8, 5)},
        Row{{"dualpipe-v", 8, 32, 0, 0}, 99.5, 3.5, .0352, 3.5, each(8, 8.5)}));

TEST(ReferenceTable, VMinHoldsAtMostAThird) {
  const ScheduleSimulation simulation = play({"v-min", 8, 32, 0, 0});
  EXPECT_DOUBLE_EQ(simulation.makespan, 109.5);
  EXPECT_DOUBLE_EQ(simulation.makespan_bubble, 13.5);
  EXPECT_DOUBLE_EQ(simulation.span_bubble, 13.5);
  EXPECT_LE(simulation.peak(), 4);
}

TEST(ReferenceTable, VSchedulesGrowAsTheirFitsSay) {
  for (const int p : {4, 6, 8, 10, 12, 16}) {
    const ScheduleSimulation half = play({"v-half", p, 4 * p, 0, 0});
    EXPECT_DOUBLE_EQ(half.makespan_bubble, 1.5 * p - 3.5) << p;
    EXPECT_DOUBLE_EQ(half.peak(), (p + 2) / 2) << p;
  }
  for (const int p : {4, 6, 8, 16}) {
    const ScheduleSimulation least = play({"v-min", p, 4 * p, 0, 0});
    EXPECT_DOUBLE_EQ(least.makespan_bubble, p == 6 ? 2 * p - 3.5 : 2 * p - 2.5) << p;
    EXPECT_LE(least.peak(), (p + 4) / 3) << p;
  }
}

TEST(ReferenceTable, VMinSuffersFromUnequalTimesMoreThanVHalf) {
  const auto bubble = [](const char* name) {
    const Schedule schedule = make_schedule({name, 8, 64, 0, 0});
    const ScheduleSimulation simulation = simulate(
        schedule,
        uniform_costs(16,
                      {.forward = 0.5, .input_grad = 0.6, .weight_grad = 0.4, .activations = 0.5}));
    return simulation.makespan_bubble;
  };
  EXPECT_NEAR(bubble("v-min"), 52.5, 0.05);
  EXPECT_NEAR(bubble("v-half"), 11.5, 0.05);
}

}  // namespace
}  // namespace weft::mesh

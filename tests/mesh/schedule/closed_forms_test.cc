// Tests that simulations meet the papers' formulas exactly, over many sizes and costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/mesh/schedule/play.h"

namespace weft::mesh {
namespace {

using test::play;
using test::Times;

const std::vector<Times> kTimes = {{1, 1, 1}, {1, 2, 1}, {2, 3, 1}, {1, 1.5, 0.5}};
const std::vector<std::pair<int, int>> kSizes = {{1, 4}, {2, 4}, {3, 9}, {4, 8}, {6, 12}, {8, 32}};

TEST(ClosedForms, OneStagePerActorHasTheBubbleOfFillAndDrain) {
  for (const auto& [p, m] : kSizes) {
    for (const Times& t : kTimes) {
      const double b = t.i + t.w;
      for (const char* name : {"gpipe", "1f1b", "eager-1f1b"}) {
        const ScheduleSimulation simulation = play({name, p, m, 0, 0}, t);
        EXPECT_DOUBLE_EQ(simulation.makespan_bubble, (p - 1) * (t.f + b)) << name;
        EXPECT_DOUBLE_EQ(simulation.span_bubble, (p - 1) * (t.f + b)) << name;
        EXPECT_DOUBLE_EQ(simulation.bubble_rate(), (p - 1.0) / (m + p - 1)) << name;
      }
    }
  }
}

TEST(ClosedForms, InterleavingDividesTheBubble) {
  for (const auto& [p, m] : kSizes) {
    for (const int v : {2, 4}) {
      for (const char* name : {"interleaved-1f1b", "breadth-first"}) {
        EXPECT_DOUBLE_EQ(play({name, p, m, v, 0}, {1, 1, 1}).makespan_bubble, (p - 1) * 3.0 / v)
            << name << " p=" << p << " v=" << v;
      }
    }
  }
}

TEST(ClosedForms, PeaksAreThoseOfTheWarmUps) {
  for (const auto& [p, m] : kSizes) {
    const auto peak = [&, p = p, m = m](const char* name, int actor) {
      return play({name, p, m, 0, 0}, {1, 1, 1}).actors[actor].peak;
    };
    for (int i = 0; i < p; ++i) {
      EXPECT_DOUBLE_EQ(peak("gpipe", i), m);
      EXPECT_DOUBLE_EQ(peak("1f1b", i), std::min(m, p - i));
      EXPECT_DOUBLE_EQ(peak("eager-1f1b", i), std::min(m, 2 * (p - i) - 1));
      EXPECT_DOUBLE_EQ(peak("zb-h1", i), std::min(m, p));
      EXPECT_DOUBLE_EQ(peak("zb-v", i), std::min(m, p));
      EXPECT_DOUBLE_EQ(peak("breadth-first", i), m);
      if (m % p == 0 && m > 2 * p) {
        EXPECT_DOUBLE_EQ(peak("interleaved-1f1b", i), (2 * (p - 1 - i) + p + 1) / 2.0);
      }
    }
  }
}

TEST(ClosedForms, ZeroBubbleH1SavesTwoWeightGradientsPerStage) {
  for (const auto& [p, m] : kSizes) {
    // The formula holds for W <= F <= I.
    for (const Times& t : {Times{1, 1, 1}, Times{1, 2, 1}, Times{2, 3, 1}}) {
      EXPECT_DOUBLE_EQ(play({"zb-h1", p, m, 0, 0}, t).makespan_bubble, (p - 1) * (t.f + t.i - t.w))
          << p << " " << m;
    }
  }
}

TEST(ClosedForms, ZeroBubbleH2AndVHaveNoneButTheStart) {
  for (const int p : {2, 4, 8}) {
    const ScheduleSimulation h2 = play({"zb-h2", p, 4 * p, 0, 0}, {1, 1, 1});
    EXPECT_DOUBLE_EQ(h2.span_bubble, 0) << p;
    EXPECT_DOUBLE_EQ(h2.makespan_bubble, p - 1) << p;
    const ScheduleSimulation v = play({"zb-v", p, 4 * p, 0, 0}, {1, 1, 1});
    EXPECT_DOUBLE_EQ(v.span_bubble, 0) << p;
    EXPECT_DOUBLE_EQ(v.makespan_bubble, (p - 1) / 2.0) << p;
  }
}

TEST(ClosedForms, DualPipeVWithPairsAsOne) {
  for (const int p : {2, 4, 8}) {
    const Schedule schedule = make_schedule({"dualpipe-v", p, 4 * p, 0, 0});
    ScheduleCosts costs = uniform_costs(2 * p, {});
    for (int stage = 0; stage < 2 * p; ++stage)
      costs.compounds[{{stage, ActionKind::kForward, 0},
                       {2 * p - 1 - stage, ActionKind::kBackward, 1}}] = {3};
    // (p - 1)(F&B + B - 3W), in the times of one of the two stages.
    EXPECT_DOUBLE_EQ(simulate(schedule, costs).makespan_bubble, (p - 1) * (3.0 + 2 - 3)) << p;
  }
}

/// Returns the time per microbatch while the pipeline is full.
double period(const std::string& name, int p, const Times& times, double transfer) {
  const int m = 64 * p;
  return (play({name, p, 2 * m, 0, 0}, times, transfer).makespan -
          play({name, p, m, 0, 0}, times, transfer).makespan) /
         m;
}

TEST(ClosedForms, TransfersCostOneFOneBTwiceTheirTimeAndEagerNothing) {
  for (const int p : {2, 4, 8}) {
    for (const double c : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0}) {
      double eager = 3, plain = 3;
      for (int k = 1; k <= p; ++k) {
        eager = std::max(eager, (k * 3 + 2 * (k - 1) * c) / (2 * k - 1));
        plain = std::max(plain, (k * 3 + 2 * (k - 1) * c) / k);
      }
      EXPECT_NEAR(period("1f1b", p, {1, 1, 1}, c), plain, 0.02) << p << " " << c;
      EXPECT_NEAR(period("eager-1f1b", p, {1, 1, 1}, c), eager, 0.02) << p << " " << c;
      if (c <= 1.5) {
        EXPECT_NEAR(eager, 3, 1e-12);
      }
      const double h1 = c <= 0.5 ? 3 : 3 + 2 * (c - 0.5) * (p - 1) / p;
      EXPECT_NEAR(period("zb-h1", p, {1, 1, 1}, c), h1, 0.02) << p << " " << c;
    }
  }
  EXPECT_NEAR(period("1f1b", 4, {1, 1, 1}, 0.5), 3.75, 0.02);
  EXPECT_NEAR(period("eager-1f1b", 4, {1, 1, 1}, 2), 3.43, 0.02);
}

TEST(ClosedForms, SkipTensorsWaitLongerUnderEager) {
  // Counts stage 0's outputs that have arrived at the last stage and are not used yet.
  const auto waiting = [](const char* name, int p) {
    ScheduleCosts costs = uniform_costs(p, {.activations = 0, .for_weight_grad = 0});
    costs.edges.push_back({{0, p - 1, 1}, 0, 0});
    return simulate(make_schedule({name, p, 4 * p, 0, 0}), costs).actors.back().peak;
  };
  EXPECT_DOUBLE_EQ(waiting("1f1b", 4), 3);
  EXPECT_DOUBLE_EQ(waiting("eager-1f1b", 4), 5);
  EXPECT_DOUBLE_EQ(waiting("1f1b", 8), 7);
  EXPECT_DOUBLE_EQ(waiting("eager-1f1b", 8), 12);
}

}  // namespace
}  // namespace weft::mesh

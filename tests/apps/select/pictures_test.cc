#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "apps/select/point_sample.h"
#include "apps/select/progress_plot.h"
#include "apps/select/projection.h"
#include "apps/select/selection_map.h"

namespace weft::apps {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Projection, FindsTheDirectionsInWhichVectorsDiffer) {
  // Points around (7, 7, 7): two along (3, 4, 0) at distance 10, two along (4, -3, 0) at 0.5.
  std::vector<float> values;
  for (const auto& [a, b] : std::vector<std::pair<float, float>>{{2, 0}, {-2, 0}, {0, 1}, {0, -1}})
    values.insert(values.end(), {7 + a * 3 + b * 0.4F, 7 + a * 4 - b * 0.3F, 7});
  const PlaneProjection plane = project_to_plane({values, 3});
  ASSERT_EQ(plane.points.size(), 4U);
  // The sign is chosen so that the largest entry of each direction is positive.
  const double expected[][2] = {{10, 0}, {-10, 0}, {0, 0.5}, {0, -0.5}};
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t axis = 0; axis < 2; ++axis)
      EXPECT_NEAR(plane.points[row][axis], expected[row][axis], 1e-4) << row << ", " << axis;
  EXPECT_NEAR(plane.shares[0], 200 / 200.5, 1e-6);
  EXPECT_NEAR(plane.shares[1], 0.5 / 200.5, 1e-6);
}

TEST(Projection, WhereNothingDiffersThereIsNoDirection) {
  const std::vector<float> same = {1, 2, 1, 2, 1, 2};
  const std::vector<float> line = {1, 2, 2, 4, 3, 6};
  EXPECT_EQ(project_to_plane({same, 2}).points[1], (std::array<double, 2>{0, 0}));
  const PlaneProjection plane = project_to_plane({line, 2});
  EXPECT_NEAR(plane.points[2][0], std::sqrt(5), 1e-9);
  EXPECT_EQ(plane.points[2][1], 0);
}

TEST(PointSample, OfAPartAreThoseOfAllThatLieInIt) {
  PointSample of_all(100, 7), of_even(1000, 7);
  for (PointId id = 0; id < 1000; ++id) {
    of_all.offer(id);
    if (id % 2 == 0) of_even.offer(id);
  }
  const auto all = of_all.take(), even = of_even.take();
  EXPECT_EQ(all.size(), 100U);
  EXPECT_EQ(even.size(), 500U);
  EXPECT_TRUE(std::ranges::is_sorted(all));
  PointSample few(10, 7), fewer(3, 7);
  for (const PointId id : all) few.offer(id);
  for (const PointId id : few.take()) fewer.offer(id);
  PointSample directly(3, 7);
  for (PointId id = 0; id < 1000; ++id) directly.offer(id);
  EXPECT_EQ(fewer.take(), directly.take());
}

TEST(ProgressPlot, CountsWhatStepsAndRoundsDecide) {
  SelectionProgress progress;
  // Shrink (40), shrink (0), grow (5), grow (0), then shrink and grow again with no decisions.
  progress.decided = {40, 0, 5, 0, 0, 0};
  progress.step_seconds = {1, 2, 3, 4, 5, 6};
  progress.rounds = {{4, 20, 30, 7}, {2, 15, 5, 8}};
  const std::vector<SelectionStage> stages = stages_of(100, 10, progress);
  EXPECT_THAT(stages,
              ElementsAre(SelectionStage{0, 0, 60, 40, 1}, SelectionStage{0, 0, 60, 40, 2},
                          SelectionStage{0, 5, 55, 40, 3}, SelectionStage{0, 5, 55, 40, 4},
                          SelectionStage{0, 5, 55, 40, 5}, SelectionStage{0, 5, 55, 40, 6},
                          SelectionStage{4, 5, 30, 65, 7}, SelectionStage{2, 10, 0, 90, 8}));
  const std::string svg = draw_progress(stages, "some").str();
  EXPECT_THAT(svg, AllOf(HasSubstr(">some<"), HasSubstr(">step of bounding<"),
                         HasSubstr(">round of m partitions<"), HasSubstr(">m = 4<"),
                         HasSubstr("after round 1: 5 chosen, 30 in play, 65 left out; 7.0 s"),
                         Not(HasSubstr("nan"))));
  EXPECT_THAT(draw_progress(stages_of(100, 10, {}), "none").str(), HasSubstr("</svg>"));
}

TEST(SelectionMap, SaysHowManyOfHowManyAreShown) {
  SelectionMap map{{{0.5, 0.5}}, {{-0.5, 0}, {0, -0.5}}, 100, 1000, {0.5, 0.25}};
  const std::string svg = draw_map(map, "some").str();
  EXPECT_THAT(
      svg, AllOf(HasSubstr("chosen: 1 of 100 are shown"), HasSubstr("left out: 2 of 900 are shown"),
                 HasSubstr("first principal component, 50 % of the variance")));
}

}  // namespace
}  // namespace weft::apps

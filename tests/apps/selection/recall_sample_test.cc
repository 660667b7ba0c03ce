#include "apps/selection/internal/recall_sample.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weft::apps {
namespace {

TEST(StratifiedSample, HasOnePointOfEachRangeOfIds) {
  const std::vector<PointId> sample = stratified_sample(1000, 10, 1, 7);
  ASSERT_EQ(sample.size(), 10U);
  for (std::size_t i = 0; i < sample.size(); ++i) {
    EXPECT_GE(sample[i], 100 * i);
    EXPECT_LT(sample[i], 100 * (i + 1));
  }
  EXPECT_EQ(sample, stratified_sample(1000, 10, 1, 7));
  EXPECT_NE(sample, stratified_sample(1000, 10, 2, 7));
  EXPECT_NE(sample, stratified_sample(1000, 10, 1, 8));
}

TEST(StratifiedSample, OfAsManyPointsAsRangesHasAll) {
  std::vector<PointId> all(20);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(stratified_sample(20, 20, 3, 1), all);
}

}  // namespace
}  // namespace weft::apps

#include "apps/selection/centroids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weft::apps {
namespace {

TEST(CentroidSample, IsLargeEnoughAndNotTooLarge) {
  EXPECT_EQ(centroid_sample(1'000'000, 1024, 64), 32U * 1024);
  EXPECT_EQ(centroid_sample(20'000, 1024, 64), 20'000U);
  EXPECT_EQ(centroid_sample(10'000'000, 4096, 2048), 8U * 4096);
}

TEST(TrainCentroids, CellsThatNothingIsNearestToBeginAnew) {
  constexpr std::size_t kCells = 6, kNumbers = 8;
  // Unit vectors along the axes. The first axis has so many that all cells but one start there.
  std::vector<float> values;
  for (std::size_t i = 0; i < 300; ++i)
    for (std::size_t d = 0; d < kNumbers; ++d)
      values.push_back(d == (i < 250 ? 0 : 1 + i % (kCells - 1)) ? 1.0F : 0.0F);
  const std::vector<float> centroids = train_centroids(plain_search(), {values, kNumbers}, kCells);
  ASSERT_EQ(centroids.size(), kCells * kNumbers);
  const VectorRows rows{centroids, kNumbers};
  for (std::size_t direction = 0; direction < kCells; ++direction) {
    float nearest = 0;
    for (std::size_t cell = 0; cell < kCells; ++cell) {
      nearest = std::max(nearest, rows[cell][direction]);
      EXPECT_NEAR(inner_product(rows[cell], rows[cell]), 1, 1e-5);
    }
    EXPECT_EQ(nearest, 1) << direction;
  }
  EXPECT_EQ(train_centroids(plain_search(), {values, kNumbers}, kCells), centroids);
}

}  // namespace
}  // namespace weft::apps

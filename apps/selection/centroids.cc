#include "apps/selection/centroids.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/base/check.h"

namespace weft::apps {
namespace {

constexpr int kIterations = 10;
constexpr std::uint64_t kMost = 32, kFewest = 8, kMostBytes = std::uint64_t{64} << 20;

}  // namespace

std::uint64_t centroid_sample(std::uint64_t points, std::uint64_t cells, std::size_t dimensions) {
  const std::uint64_t fitting = kMostBytes / (dimensions * sizeof(float));
  return std::min(points, std::clamp(fitting, kFewest * cells, kMost * cells));
}

std::vector<float> train_centroids(const VectorSearch& search, VectorRows sample,
                                   std::size_t cells) {
  const std::size_t rows = sample.size(), dimensions = sample.dimensions;
  WEFT_CHECK(cells > 0 && rows >= cells, "{} cells of {} vectors", cells, rows);
  std::vector<float> centroids(cells * dimensions);
  const auto begin_with = [&](std::size_t cell, std::size_t row) {
    std::ranges::copy(sample[row],
                      centroids.begin() + static_cast<std::ptrdiff_t>(cell * dimensions));
  };
  for (std::size_t cell = 0; cell < cells; ++cell) begin_with(cell, cell * rows / cells);
  std::vector<std::int64_t> nearest(rows);
  std::vector<float> products(rows);
  for (int i = 0; i < kIterations; ++i) {
    search.top_k_products(sample, {centroids, dimensions}, 1, nearest, products);
    std::vector<double> sums(cells * dimensions);
    std::vector<std::uint32_t> sizes(cells);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto cell = static_cast<std::size_t>(nearest[row]);
      ++sizes[cell];
      for (std::size_t d = 0; d < dimensions; ++d) sums[cell * dimensions + d] += sample[row][d];
    }
    std::vector<std::size_t> far;  // starting samples of empty cells
    const auto empty = static_cast<std::size_t>(std::ranges::count(sizes, 0U));
    if (empty > 0) {
      far.resize(rows);
      std::iota(far.begin(), far.end(), std::size_t{0});
      std::ranges::sort(far, [&](std::size_t a, std::size_t b) {
        return products[a] != products[b] ? products[a] < products[b] : a < b;
      });
    }
    std::size_t begun = 0;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const std::span<const double> sum = std::span(sums).subspan(cell * dimensions, dimensions);
      const double square = std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0);
      if (sizes[cell] == 0) {
        begin_with(cell, far[begun++]);
      } else if (square > 0) {  // a zero sum keeps the old centroid
        const double scale = 1 / std::sqrt(square);
        for (std::size_t d = 0; d < dimensions; ++d)
          centroids[cell * dimensions + d] = static_cast<float>(sum[d] * scale);
      }
    }
  }
  return centroids;
}

}  // namespace weft::apps

#include "apps/selection/nearest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/philox.h"
#include "tests/apps/selection/exact_neighbours.h"

namespace weft::apps {
namespace {

using testing::Gt;

/// Returns vectors of length 1 around 7 centres, in runs of `copies` equal ones.
std::vector<float> draw(std::size_t points, std::size_t dimensions, std::size_t copies) {
  PhiloxStream random(3, dimensions);
  std::vector<float> values(points * dimensions);
  for (std::size_t i = 0; i < points; ++i) {
    for (std::size_t d = 0; d < dimensions; ++d) {
      const std::size_t centre = i % 7;
      values[i * dimensions + d] =
          static_cast<float>(random.below(1000)) / 1000 + static_cast<float>(centre * d % 5) - 2.0F;
    }
    if (i % copies != 0)
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>((i - i % copies) * dimensions),
                  dimensions, values.begin() + static_cast<std::ptrdiff_t>(i * dimensions));
  }
  normalise_vectors(values, dimensions, "drawn");
  return values;
}

struct Found {
  NeighbourLists lists;
  std::uint64_t scans = 0;
};

/// Finds the neighbours that exact_neighbours() finds, with the bases split into `parts`.
Found find(const VectorSearch& search, const std::vector<float>& values, std::size_t dimensions,
           const NeighbourRule& rule, std::size_t parts) {
  const std::size_t points = values.size() / dimensions;
  std::vector<PointId> ids(points);
  std::iota(ids.begin(), ids.end(), 0);
  const PointVectors all{ids, {values, dimensions}};
  Found found{NeighbourLists(points), 0};
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = points * part / parts, past = points * (part + 1) / parts;
    const PointVectors bases{
        all.ids.subspan(first, past - first),
        {all.vectors.values.subspan(first * dimensions, (past - first) * dimensions), dimensions}};
    found.scans += find_nearest(search, rule, all, bases, found.lists);
  }
  make_symmetric(found.lists);
  return found;
}

TEST(FindNearest, IsComparingAllPairsByAnyLibraryInAnyBlocks) {
  struct Case {
    std::size_t points, dimensions, copies;
    std::uint16_t floor;
  };
  for (const auto& [points, dimensions, copies, floor] :
       {Case{1700, 16, 1, 0}, Case{1500, 67, 1, 65000}, Case{600, 8, 40, 0}, Case{3, 5, 1, 0}}) {
    SCOPED_TRACE(fmt::format("{} points, {} copies", points, copies));
    const std::vector<float> values = draw(points, dimensions, copies);
    const NeighbourLists expected = exact_neighbours(values, dimensions, 6, floor);
    for (const VectorSearch* search : {&plain_search(), vector_search().search}) {
      for (const std::size_t parts : {1, 3}) {
        const Found found = find(*search, values, dimensions, {6, floor}, parts);
        EXPECT_EQ(found.lists, expected) << search->name() << ", " << parts << " parts";
        // Many equally similar vectors need scans, as ties are broken by id.
        if (copies > 20) {
          EXPECT_THAT(found.scans, Gt(points / 2));
        } else {
          EXPECT_LE(found.scans, points / 10);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::apps

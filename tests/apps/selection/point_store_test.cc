#include "apps/selection/point_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "apps/selection/generated_points.h"
#include "apps/selection/rounds.h"
#include "core/base/error.h"
#include "tests/apps/selection/random_graph.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

class PointStoreTest : public testing::Test {
 protected:
  template <typename Do>
  std::string message_of(ErrorCode code, const Do& act) const {
    const Error error = test::error_of(act);
    EXPECT_EQ(error.code(), code) << error.message();
    return error.message();
  }

  const test::ScratchFolder scratch_;
  const std::filesystem::path& folder_ = scratch_.path();
};

TEST_F(PointStoreTest, GivesBackItsPoints) {
  PhiloxStream random(10);
  const ShardLayout layout{101, 7};
  std::vector<std::uint16_t> utilities;
  std::vector<std::vector<Neighbour>> neighbours(101);
  for (PointId a = 0; a < 101; ++a) {
    utilities.push_back(static_cast<std::uint16_t>(random.below(65536)));
    for (PointId b = 0; b < 101; ++b)
      if (a != b && random.below(9) == 0)
        neighbours[a].push_back({b, static_cast<std::uint16_t>(random.below(65536))});
  }
  std::uint64_t edges = 0;
  for (std::uint32_t shard = 0; shard < 7; ++shard) {
    PointShardWriter writer(folder_, layout, shard);
    for (std::uint64_t id = layout.first_of(shard); id < layout.first_of(shard + 1); ++id) {
      EXPECT_EQ(layout.shard_of(static_cast<PointId>(id)), shard);
      writer.append(utilities[id], neighbours[id]);
    }
    writer.commit();
    edges += writer.num_edges();
  }
  write_store_index(folder_, layout, edges);
  const PointStore store(folder_);
  EXPECT_EQ(store.layout(), layout);
  PointId next = 0;
  for (std::uint32_t shard = 0; shard < 7; ++shard) {
    PointShardReader reader = store.read(shard);
    while (const StoredPoint* point = reader.next()) {
      EXPECT_EQ(point->id, next);
      EXPECT_EQ(point->utility, utilities[next]);
      EXPECT_THAT(point->neighbours, testing::ElementsAreArray(neighbours[next]));
      ++next;
    }
  }
  EXPECT_EQ(next, 101U);
  const PointGraph graph = store.load({3, 1});
  EXPECT_EQ(graph.num_edges(), edges);
  EXPECT_EQ(graph.gains[17], 3 * utilities[17]);
}

TEST_F(PointStoreTest, RefusesWrongNeighbours) {
  const ShardLayout layout{10, 2};
  PointShardWriter writer(folder_, layout, 1);
  const auto append = [&](std::vector<Neighbour> neighbours) {
    return message_of(ErrorCode::kInvalidArgument, [&] { writer.append(1, neighbours); });
  };
  EXPECT_EQ(append({{10, 1}}), "point 5 has the neighbour 10, but there are 10");
  EXPECT_EQ(append({{5, 1}}), "point 5 is its own neighbour");
  EXPECT_THAT(append({{3, 1}, {3, 2}}), HasSubstr("point 5 has the neighbour 3 behind 3"));
  EXPECT_THAT(append({{3, 1}, {2, 2}}), HasSubstr("point 5 has the neighbour 2 behind 3"));
  writer.append(1, {});
  EXPECT_EQ(message_of(ErrorCode::kInvalidArgument, [&] { writer.commit(); }),
            "shard 1 ends at point 6, not at 10");
}

TEST_F(PointStoreTest, NamesMissingAndDamagedFiles) {
  EXPECT_THAT(message_of(ErrorCode::kNotFound, [&] { PointStore(folder_ / "absent"); }),
              HasSubstr("points.json does not exist"));
  generate_points(folder_, {.points = 3000, .shards = 4});
  const auto read = [&] { PointStore(folder_).load({1, 1}); };
  read();
  // Replaces shard 2 by a copy of shard 1.
  std::filesystem::copy_file(folder_ / "points-00001", folder_ / "points-00002",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(message_of(ErrorCode::kDataLoss, read),
              HasSubstr("points-00002 is damaged or is not shard 2 of"));
  std::filesystem::resize_file(folder_ / "points-00002", 5000);
  EXPECT_THAT(message_of(ErrorCode::kDataLoss, read), HasSubstr("points-00002 is damaged"));
  std::filesystem::remove(folder_ / "points-00002");
  EXPECT_THAT(message_of(ErrorCode::kNotFound, read), HasSubstr("points-00002: No such file"));
  std::ofstream(folder_ / "points.json") << "{\"version\": 1}";
  EXPECT_THAT(message_of(ErrorCode::kDataLoss, read), HasSubstr("points.json is damaged"));
  std::ofstream(folder_ / "points.json") << "{\"version\": 9}";
  EXPECT_THAT(message_of(ErrorCode::kIncompatible, read), HasSubstr("has version 9"));
}

TEST_F(PointStoreTest, GeneratedPointsAreSymmetricAndWorthChoosingFrom) {
  generate_points(folder_, {.points = 5250, .shards = 3});
  const PointGraph graph = PointStore(folder_).load({9, 1});
  ASSERT_EQ(graph.size(), 5250U);
  // At least ten neighbours each, about fifteen on average.
  EXPECT_NEAR(static_cast<double>(graph.num_edges()) / 5250, 14.6, 1);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint16_t> edges;
  for (std::uint32_t row = 0; row < graph.size(); ++row) {
    EXPECT_GE(graph.first[row + 1] - graph.first[row], 10U);
    for (std::uint64_t edge = graph.first[row]; edge < graph.first[row + 1]; ++edge)
      edges[{row, graph.neighbours[edge]}] = graph.similarities[edge];
  }
  for (const auto& [ends, similarity] : edges) {
    EXPECT_EQ(edges.at({ends.second, ends.first}), similarity);
    EXPECT_EQ(ends.first / 500, ends.second / 500);
  }
  // Partitions lose edges; more rounds make up for it.
  const auto score = [&](std::uint32_t partitions, int rounds) {
    RoundOptions options;
    options.count = 525;
    options.partitions = partitions;
    options.rounds = rounds;
    return score_of(graph, {9, 1}, test::rows_of(choose_in_rounds(graph, {9, 1}, options).chosen));
  };
  EXPECT_LT(score(16, 1), score(16, 8));
  EXPECT_LT(score(16, 8), score(1, 1));
  EXPECT_GT(static_cast<double>(score(16, 8)), 0.9 * static_cast<double>(score(1, 1)));
}

}  // namespace
}  // namespace weft::apps

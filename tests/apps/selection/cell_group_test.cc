#include "apps/selection/internal/cell_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace weft::apps {
namespace {

TEST(CellGroup, HasTheBasesAndQueriesOfItsCellsById) {
  const test::ScratchFolder scratch;
  CellGroupWriter writer(scratch.path(), 2);
  const auto append = [&](std::uint32_t group, std::uint32_t cell, bool is_base, PointId id) {
    const std::vector<float> vector = {static_cast<float>(id), 1};
    writer.append(group, cell, is_base, id, std::as_bytes(std::span(vector)));
  };
  append(0, 4, true, 9);
  append(0, 2, false, 8);
  append(0, 4, true, 3);
  append(0, 4, false, 9);
  append(1, 5, true, 1);
  writer.commit();

  CellGroup group(scratch.path(), 0, 2);
  const auto second = group.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->bases.size(), 0U);
  EXPECT_EQ(second->queries.ids, std::vector<PointId>{8});
  const auto fourth = group.next();
  ASSERT_TRUE(fourth);
  EXPECT_EQ(fourth->bases.ids, (std::vector<PointId>{3, 9}));
  EXPECT_EQ(fourth->bases.values, (std::vector<float>{3, 1, 9, 1}));
  EXPECT_EQ(fourth->queries.ids, std::vector<PointId>{9});
  EXPECT_FALSE(group.next());

  EXPECT_EQ(CellGroup(scratch.path(), 1, 2).next()->bases.ids, std::vector<PointId>{1});
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));  // a group is loaded once
}

}  // namespace
}  // namespace weft::apps

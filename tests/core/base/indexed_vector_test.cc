#include "core/base/indexed_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <concepts>
#include <memory>
#include <string>

#include "core/base/strong_id.h"

namespace weft {
namespace {

using StageId = StrongId<struct StageTag, int>;
using MeshId = StrongId<struct MeshTag, int>;

template <typename Container, typename Index>
concept IndexedBy = requires(const Container& container, Index index) {
  container[index];
};

static_assert(IndexedBy<IndexedVector<MeshId, double>, MeshId>);
static_assert(!IndexedBy<IndexedVector<MeshId, double>, StageId>);
static_assert(!IndexedBy<IndexedVector<MeshId, double>, int>);

TEST(IndexedVector, IsFoundByTheIdThatPuttingGave) {
  IndexedVector<StageId, MeshId> mesh_of_stage;
  const StageId first = mesh_of_stage.push_back(MeshId(1)),
                second = mesh_of_stage.push_back(MeshId(0));
  EXPECT_EQ(first, StageId(0));
  EXPECT_EQ(mesh_of_stage[second], MeshId(0));
  mesh_of_stage[first] = MeshId(2);
  EXPECT_THAT(mesh_of_stage.values(), testing::ElementsAre(MeshId(2), MeshId(0)));
}

TEST(IndexedVector, IdsAreThoseOfItsPlacesInOrder) {
  const IndexedVector<MeshId, std::string> names{"front", "back"};
  std::vector<std::string> seen;
  for (const MeshId mesh : names.ids()) seen.push_back(names[mesh]);
  EXPECT_THAT(seen, testing::ElementsAre("front", "back"));
  const IndexedVector<MeshId, std::string> none;
  EXPECT_TRUE(none.ids().begin() == none.ids().end());
}

TEST(IndexedVector, HoldsMoveOnlyTypesAndBools) {
  IndexedVector<MeshId, std::unique_ptr<int>> owners;
  EXPECT_EQ(*owners[owners.push_back(std::make_unique<int>(3))], 3);
  IndexedVector<MeshId, bool> flags(2, false);
  flags[MeshId(1)] = true;
  EXPECT_THAT(flags.values(), testing::ElementsAre(false, true));
}

}  // namespace
}  // namespace weft

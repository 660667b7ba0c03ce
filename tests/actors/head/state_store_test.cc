#include "actors/head/state_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/error.h"

namespace weft::actors {
namespace {

class StateStoreTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(directory_); }
  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / fmt::format("weft_state_store_{}", ::getpid());
};

TEST_F(StateStoreTest, KeepsTheClusterAndGrowsTheTerm) {
  std::string id;
  {
    StateStore store(directory_);
    id = store.cluster_id();
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(store.term(), 1u);
    EXPECT_EQ(store.next_mesh_epoch("front"), 1u);
    EXPECT_EQ(store.next_mesh_epoch("front"), 2u);
    EXPECT_EQ(store.next_mesh_epoch("back"), 1u);
    store.add_event({5, "worker0 joined"});
  }
  StateStore store(directory_);
  EXPECT_EQ(store.cluster_id(), id);
  EXPECT_EQ(store.term(), 2u);
  EXPECT_EQ(store.next_mesh_epoch("front"), 3u);
  const auto events = store.last_events(10);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "worker0 joined");
}

TEST_F(StateStoreTest, KeepsOneTextPerIncident) {
  StateStore store(directory_);
  Incident incident{"front", 1, {Casualty{}}, 0};
  store.add_incident(incident);
  incident.casualties[0].actor = "front[tensor=1]";
  store.add_incident(incident);
  EXPECT_THAT(store.incidents(), ::testing::ElementsAre(::testing::HasSubstr("front[tensor=1]")));
}

TEST_F(StateStoreTest, SecondHeadOnOneDirectoryIsRefused) {
  StateStore first(directory_);
  try {
    StateStore second(directory_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("another head runs on the state directory"));
  }
}

}  // namespace
}  // namespace weft::actors

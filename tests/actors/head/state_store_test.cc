#include "actors/head/state_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace {

std::atomic<int> disk_syncs = 0;  // calls of fsync and fdatasync in this process, SQLite's included

}  // namespace

// Replace the C library's functions.
extern "C" int fsync(int file) {
  ++disk_syncs;
  return static_cast<int>(::syscall(SYS_fsync, file));
}
extern "C" int fdatasync(int file) {
  ++disk_syncs;
  return static_cast<int>(::syscall(SYS_fdatasync, file));
}

namespace weft::actors {
namespace {

using ::testing::HasSubstr;

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

TEST_F(StateStoreTest, AStateDirectoryThatAnotherUserMayHaveMadeIsRefused) {
  const std::filesystem::path open = directory_ / "open";
  std::filesystem::create_directories(directory_ / "own");
  std::filesystem::create_directories(open);
  std::filesystem::permissions(open, std::filesystem::perms(0777));
  std::filesystem::create_directory_symlink(directory_ / "own", open / "state");
  const Error linked = test::error_of([&] { const StateStore store(open / "state"); });
  EXPECT_EQ(linked.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(linked.message(), HasSubstr("the link 'state'"));
  if (::geteuid() != 0) return;  // only root can give files away
  const auto refusal = [&] {
    return test::error_of([&] { const StateStore store(open); }).message();
  };
  std::ofstream(open / "head.db") << "";
  ASSERT_EQ(::chown((open / "head.db").c_str(), 65534, 65534), 0);
  EXPECT_THAT(refusal(), HasSubstr("head.db belongs to another user"));
  std::filesystem::remove(open / "head.db");
  ASSERT_EQ(::chown(open.c_str(), 65534, 65534), 0);
  EXPECT_THAT(refusal(), HasSubstr("open belongs to another user"));
}

TEST_F(StateStoreTest, ANewEpochWithItsRowTakesOneSyncAndWhatFollowsNone) {
  StateStore store(directory_);
  const int before = disk_syncs;
  EXPECT_EQ(store.next_mesh_epoch("front"), 1u);
  store.put(StateStore::Table::kMeshes, "front 1", {std::byte{1}});
  store.sync_to_disk();
  EXPECT_EQ(disk_syncs - before, 1);
  store.put(StateStore::Table::kMeshes, "front 1", {std::byte{2}});
  store.flush();
  store.add_event({5, "mesh front is up"});
  EXPECT_EQ(disk_syncs - before, 1);
}

TEST_F(StateStoreTest, AHeadThatEndsWithItsMachineNeverSyncs) {
  const int before = disk_syncs;
  {
    StateStore store(directory_, {}, StateStore::Durability::kProcessExit);
    EXPECT_EQ(store.next_mesh_epoch("front"), 1u);
    store.put(StateStore::Table::kMeshes, "front 1", {std::byte{1}});
    store.sync_to_disk();
  }
  EXPECT_EQ(disk_syncs, before);
  // The state that the first store wrote outlives it.
  StateStore store(directory_, {}, StateStore::Durability::kProcessExit);
  EXPECT_EQ(store.next_mesh_epoch("front"), 2u);
  EXPECT_EQ(store.rows(StateStore::Table::kMeshes).size(), 1u);
}

TEST_F(StateStoreTest, ADamagedFileSaysWhatToDo) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ / "head.db") << std::string(5000, 'x');
  const Error error = test::error_of([&] { StateStore store(directory_); });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_THAT(
      error.message(),
      ::testing::AllOf(::testing::HasSubstr((directory_ / "head.db").string()),
                       ::testing::HasSubstr("is damaged"), ::testing::HasSubstr("--state")));
}

TEST_F(StateStoreTest, EventsAreNumberedAcrossTerms) {
  {
    StateStore store(directory_);
    for (const char* text : {"one", "two", "three"}) store.add_event({5, text});
    EXPECT_EQ(store.event_count(), 3u);
    EXPECT_EQ(store.events_after(3, 10).events.size(), 0u);
    EXPECT_EQ(store.events_after(3, 10).last, 3u);
    EXPECT_EQ(store.events_after(0, 2).events[1].text, "two");
    EXPECT_EQ(store.events_after(0, 2).last, 2u);
  }
  StateStore store(directory_);
  store.add_event({6, "four"});
  const ClusterEvents news = store.events_after(2, 10);
  ASSERT_EQ(news.events.size(), 2u);
  EXPECT_EQ(news.events[0].text, "three");
  EXPECT_EQ(news.events[1].text, "four");
  EXPECT_EQ(news.last, 4u);
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

TEST_F(StateStoreTest, KeepsWhatBelongsToTheClusterUntilItIsErasedOrForgotten) {
  using Table = StateStore::Table;
  {
    StateStore store(directory_);
    store.put(Table::kHosts, "worker0", bytes_of("a"));
    store.put(Table::kHosts, "worker1", bytes_of(std::string("\0b", 2)));
    store.put(Table::kOwners, "worker1", bytes_of("c"));
    store.sync_to_disk();
    store.put(Table::kHosts, "worker0", bytes_of("d"));
    store.erase(Table::kOwners, "worker1");
    store.add_event({5, "that writes the rest"});
    store.put(Table::kMeshes, "front.1", bytes_of("never written"));
  }
  {
    StateStore store(directory_);
    EXPECT_THAT(store.rows(Table::kHosts),
                ::testing::ElementsAre(std::pair("worker0", bytes_of("d")),
                                       std::pair("worker1", bytes_of(std::string("\0b", 2)))));
    EXPECT_TRUE(store.rows(Table::kOwners).empty());
    EXPECT_TRUE(store.rows(Table::kMeshes).empty());
    store.erase_member_rows();
    store.put(Table::kHosts, "worker2", bytes_of("e"));
    store.sync_to_disk();
  }
  StateStore store(directory_);
  EXPECT_THAT(store.rows(Table::kHosts),
              ::testing::ElementsAre(std::pair("worker2", bytes_of("e"))));
}

TEST_F(StateStoreTest, AFileOfANewerWeftIsRefusedAndStaysAsItIs) {
  { StateStore store(directory_); }
  sqlite3* database = nullptr;
  ASSERT_EQ(::sqlite3_open((directory_ / "head.db").c_str(), &database), SQLITE_OK);
  ::sqlite3_exec(database, "PRAGMA user_version=99", nullptr, nullptr, nullptr);
  ::sqlite3_close(database);
  for (int i = 0; i < 2; ++i) {
    const Error error = test::error_of([&] { StateStore store(directory_); });
    EXPECT_EQ(error.code(), ErrorCode::kIncompatible);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("newer Weft (version 99, this one knows up"));
  }
}

TEST_F(StateStoreTest, OfAFileOfAnOlderWeftOnlyTheHistoryCounts) {
  using Table = StateStore::Table;
  std::string cluster;
  {
    StateStore store(directory_);
    cluster = store.cluster_id();
    EXPECT_EQ(store.next_mesh_epoch("front"), 1u);
    store.put(Table::kOwners, "1", bytes_of("of version 2"));
    store.put(Table::kRuns, "1", bytes_of("a run"));
    store.sync_to_disk();
  }
  sqlite3* database = nullptr;
  ASSERT_EQ(::sqlite3_open((directory_ / "head.db").c_str(), &database), SQLITE_OK);
  ::sqlite3_exec(database, "PRAGMA user_version=2", nullptr, nullptr, nullptr);
  ::sqlite3_close(database);
  for (int i = 0; i < 2; ++i) {
    StateStore store(directory_);
    EXPECT_EQ(store.cluster_id(), cluster);
    EXPECT_EQ(store.next_mesh_epoch("front"), 2u + i);
    EXPECT_THAT(store.rows(Table::kRuns),
                ::testing::ElementsAre(std::pair("1", bytes_of("a run"))));
    // Owners of this version stay.
    EXPECT_EQ(store.rows(Table::kOwners).size(), i == 0 ? 0u : 1u);
    store.put(Table::kOwners, "2", bytes_of("of this version"));
    store.sync_to_disk();
  }
}

TEST_F(StateStoreTest, AnEpochThatAnotherProcessKnowsComesNotAgain) {
  {
    StateStore store(directory_);
    store.raise_mesh_epoch("front", 7);
    store.raise_mesh_epoch("front", 3);
    EXPECT_EQ(store.next_mesh_epoch("front"), 8u);
    EXPECT_EQ(store.next_mesh_epoch("back"), 1u);
  }
  EXPECT_EQ(StateStore(directory_).next_mesh_epoch("front"), 9u);
}

TEST_F(StateStoreTest, KeepsOneTextPerIncident) {
  StateStore store(directory_);
  Incident incident{"front", 1, {ProcessFailure{}}, 0};
  store.add_incident(incident);
  incident.failures[0].actor = "front[tensor=1]";
  store.add_incident(incident);
  EXPECT_THAT(store.incidents(), ::testing::ElementsAre(::testing::HasSubstr("front[tensor=1]")));
}

/// Limit on the size of this process's files, while the object exists. 1 makes every write fail.
/// The size of the largest file lets no file grow, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(std::uintmax_t bytes = 1) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit few{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &few);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(StateStoreTest, AFullDiskStopsNothingAndIsMadeUpForLater) {
  std::vector<std::string> warnings;
  {
    StateStore store(directory_, [&](const std::string& text) { warnings.push_back(text); });
    EXPECT_EQ(store.next_mesh_epoch("front"), 1u);
    store.add_event({1, "before"});
    {
      const FullDisk full;
      store.add_event({2, "while it is full"});
      store.add_incident(Incident{"front", 1, {ProcessFailure{}}, 0});
      EXPECT_EQ(store.next_mesh_epoch("front"), 2u);
      EXPECT_EQ(store.next_mesh_epoch("back"), 1u);
    }
    EXPECT_EQ(store.last_events(2).at(1).text, "while it is full");
    EXPECT_EQ(store.incidents().size(), 1u);
    EXPECT_THAT(warnings, ::testing::ElementsAre(::testing::HasSubstr("the cluster continues")))
        << "one line, not one per write";
    store.add_event({3, "there is space again"});
    EXPECT_THAT(warnings.back(), ::testing::HasSubstr("can be written again"));
  }
  StateStore store(directory_);
  std::vector<std::string> texts;
  for (const ClusterEvent& event : store.last_events(10)) texts.push_back(event.text);
  EXPECT_THAT(texts, ::testing::ElementsAre("before", "while it is full", "there is space again"));
  EXPECT_EQ(store.next_mesh_epoch("front"), 3u);
  EXPECT_EQ(store.next_mesh_epoch("back"), 2u);
}

TEST_F(StateStoreTest, ADiskThatIsFullAtTheVeryStartStopsNothingEither) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  std::string id;
  {
    std::optional<FullDisk> full(std::in_place);
    StateStore store(directory_, warn);
    id = store.cluster_id();
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(store.term(), 1u);
    EXPECT_EQ(store.next_mesh_epoch("front"), 1u);
    store.add_event({1, "while it is full"});
    EXPECT_THAT(warnings, ::testing::ElementsAre(::testing::HasSubstr("the cluster continues")));
    full.reset();
    store.add_event({2, "there is space again"});
    EXPECT_THAT(warnings.back(), ::testing::HasSubstr("can be written again"));
  }
  {
    const FullDisk full;
    StateStore store(directory_, warn);
    store.add_event({3, "full again"});
    EXPECT_EQ(store.next_mesh_epoch("back"), 1u);
  }
  StateStore store(directory_);
  EXPECT_EQ(store.next_mesh_epoch("front"), 2u);
  std::vector<std::string> texts;
  for (const ClusterEvent& event : store.last_events(10)) texts.push_back(event.text);
  EXPECT_THAT(texts, ::testing::ElementsAre("while it is full", "there is space again"));
}

TEST_F(StateStoreTest, AHeadOnAFullDiskKnowsItsClusterAndWritesItsTerm) {
  std::string id;
  {
    StateStore store(directory_);
    id = store.cluster_id();
    store.next_mesh_epoch("front");
  }
  for (const std::uint64_t term : {2, 3, 4}) {
    const FullDisk full(std::filesystem::file_size(directory_ / "head.db-wal"));
    StateStore store(directory_);
    EXPECT_EQ(store.cluster_id(), id);
    EXPECT_EQ(store.term(), term);
    EXPECT_EQ(store.next_mesh_epoch("front"), term);
  }
  const FullDisk refuses_all;
  StateStore store(directory_);
  EXPECT_EQ(store.cluster_id(), id);
  EXPECT_EQ(store.term(), 5u);
}

TEST_F(StateStoreTest, KeepsTheLastEventsAndIncidents) {
  {
    StateStore store(directory_);
    for (std::size_t i = 0; i < StateStore::kEvents + 20; ++i)
      store.add_event({static_cast<std::int64_t>(i), "event"});
    for (std::uint64_t i = 0; i < StateStore::kIncidents + 5; ++i)
      store.add_incident(Incident{"front", i, {ProcessFailure{}}, 0});
    EXPECT_EQ(store.last_events(StateStore::kEvents * 2).size(), StateStore::kEvents);
    EXPECT_EQ(store.incidents().size(), StateStore::kIncidents);
  }
  StateStore store(directory_);
  const auto events = store.last_events(StateStore::kEvents * 2);
  EXPECT_EQ(events.size(), StateStore::kEvents);
  EXPECT_EQ(events.front().unix_ms, 20);
}

TEST_F(StateStoreTest, SecondHeadOnOneDirectoryIsRefused) {
  StateStore first(directory_);
  EXPECT_THAT([&] { StateStore second(directory_); },
              test::throws_error(ErrorCode::kFailedPrecondition,
                                 "another head runs on the state directory"));
}

}  // namespace
}  // namespace weft::actors

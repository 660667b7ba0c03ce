#include "mesh/objects/object_directory.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "mesh/objects/host_budget.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using Action = LocateReply::Action;
using actors::ProcessId;

actors::ProcessRef process(std::uint64_t id) { return {ProcessId(id), std::to_string(id), {}}; }

class Directory : public testing::Test {
 protected:
  Directory() { directory.add(object, process(1), "a"); }

  /// Returns what process `id` on `host` is told.
  std::optional<LocateReply> locate(std::uint64_t id, const std::string& host,
                                    std::vector<std::uint64_t> failed = {}) {
    LocateRequest request{object, process(id), host};
    for (const std::uint64_t each : failed) request.failed.emplace_back(each);
    return directory.locate(request);
  }
  /// Returns the process from which `id` pulls.
  std::uint64_t source_of(std::uint64_t id, const std::string& host,
                          std::vector<std::uint64_t> failed = {}) {
    const auto reply = locate(id, host, std::move(failed));
    EXPECT_TRUE(reply && reply->action == Action::kPull);
    return reply ? reply->holder.id.value() : 0;
  }

  ObjectDescription object{{ProcessId(1), 1}, 100, 0, process(1)};
  ObjectDirectory directory;
};

TEST_F(Directory, ReadersAtOnceFormAChain) {
  EXPECT_EQ(source_of(2, "b"), 1u);
  EXPECT_EQ(source_of(3, "c"), 2u);
  EXPECT_EQ(source_of(4, "d"), 3u);
  directory.received(object.id, ProcessId(2));
  // The owner sends nothing now, and has all bytes.
  EXPECT_EQ(source_of(5, "e"), 1u);
}

TEST_F(Directory, AHostWaitsForItsFirstReaderAndThenMaps) {
  EXPECT_EQ(source_of(2, "b"), 1u);
  EXPECT_EQ(locate(3, "b"), std::nullopt);
  directory.received(object.id, ProcessId(2));
  const auto reply = locate(3, "b");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->action, Action::kMap);
  EXPECT_EQ(reply->holder.id, ProcessId(2));
  // If the first reader ends, the next one takes its place.
  directory.process_lost(ProcessId(2));
  EXPECT_EQ(source_of(3, "b"), 1u);
  // A process whose memory cannot be mapped is passed over.
  EXPECT_EQ(source_of(9, "a", {1}), 3u);
}

TEST_F(Directory, AReaderWhoseSourceFailedGetsAnotherOneThatDoesNotDependOnIt) {
  EXPECT_EQ(source_of(2, "b"), 1u);
  EXPECT_EQ(source_of(3, "c"), 2u);
  EXPECT_EQ(source_of(4, "d"), 3u);
  // 3 and 4 receive from 2 in the end, so only the owner is left.
  EXPECT_EQ(source_of(2, "b", {}), 1u);
  EXPECT_EQ(test::error_of([&] { locate(2, "b", {1}); }).code(), ErrorCode::kUnavailable);
  directory.process_lost(ProcessId(2));
  EXPECT_EQ(source_of(3, "c", {2}), 1u);
}

TEST_F(Directory, AReaderWaitsForABroadcastToItsHost) {
  const std::vector audience = {process(2), process(3)};
  EXPECT_EQ(directory.add_audience(object.id, audience).size(), 2u);
  EXPECT_TRUE(directory.add_audience(object.id, audience).empty());
  directory.expect(object.id, audience);
  EXPECT_EQ(locate(2, "b"), std::nullopt);
  EXPECT_EQ(source_of(9, "e"), 1u);  // not expected
  const std::uint64_t first = kBroadcastFlag | 1, second = kBroadcastFlag | 2;
  directory.add_receiver(object.id, process(2), "b", first);
  directory.expect_ends(object.id, audience);
  EXPECT_EQ(locate(2, "b"), std::nullopt);
  EXPECT_EQ(locate(4, "b"), std::nullopt);
  EXPECT_EQ(source_of(3, "c"), 9u);                     // left out; process 2 is no source yet
  directory.received(object.id, ProcessId(2), second);  // no member of that broadcast
  EXPECT_EQ(locate(2, "b"), std::nullopt);
  directory.received(object.id, ProcessId(2), first);
  for (const std::uint64_t reader : {2, 4}) {
    const auto reply = locate(reader, "b");
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->action, Action::kMap);
    EXPECT_EQ(reply->holder.id, ProcessId(2));
  }
  // Process 2 has lost the copy.
  EXPECT_EQ(source_of(2, "b", {2}), 3u);
}

TEST_F(Directory, AReaderThatIsRefusedDoesNotKeepTheObject) {
  EXPECT_EQ(source_of(2, "b"), 1u);
  EXPECT_EQ(test::error_of([&] { locate(2, "b", {1}); }).code(), ErrorCode::kUnavailable);
  directory.drop(object.id);
  EXPECT_TRUE(directory.take_dropped(object.id));
}

TEST_F(Directory, ADroppedObjectEndsOnceNobodyReceivesIt) {
  EXPECT_EQ(source_of(2, "b"), 1u);
  directory.drop(object.id);
  EXPECT_EQ(test::error_of([&] { locate(3, "c"); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(directory.take_dropped(object.id), std::nullopt);
  EXPECT_EQ(source_of(2, "b", {}), 1u);  // it may go on
  directory.received(object.id, ProcessId(2));
  const auto holders = directory.take_dropped(object.id);
  ASSERT_TRUE(holders);
  EXPECT_EQ(holders->size(), 2u);
  EXPECT_EQ(directory.size(), 0u);
}

TEST(HostBudget, CountsTheProcessesThatUseItsFile) {
  const test::ScratchFolder folder;
  HostBudget one(folder.path() / "budget", 100);
  {
    HostBudget two(folder.path() / "budget", 100);
    EXPECT_TRUE(one.reserve(60));
    EXPECT_FALSE(two.reserve(41));
    EXPECT_TRUE(two.reserve(40));
    EXPECT_EQ(one.used(), 100u);
    EXPECT_EQ(one.used_here(), 60u);
    one.release(10);
    EXPECT_EQ(two.used(), 90u);
  }
  EXPECT_EQ(one.used(), 50u);
  // All have the limit of the first one, unless they have one of their own.
  HostBudget late(folder.path() / "budget", 10, true);
  EXPECT_EQ(late.limit(), 100u);
  EXPECT_EQ(HostBudget(folder.path() / "other", 10, true).limit(), 10u);
  EXPECT_EQ(one.begin_writing(20), 20u);
  EXPECT_TRUE(late.reserve(5));
  EXPECT_EQ(late.begin_writing(5), 25u);
  one.end_writing(15);
  EXPECT_EQ(late.begin_writing(0), 10u);
  HostBudget alone("", 100);
  EXPECT_TRUE(alone.reserve(100));
  EXPECT_FALSE(alone.reserve(1));
}

}  // namespace
}  // namespace weft::mesh

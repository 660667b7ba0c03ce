#include "actors/head/run_history.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace weft::actors {
namespace {

class RunHistoryTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(directory_); }
  static ProcessRef process(std::uint64_t id) { return {ProcessId(id), "driver", {}}; }
  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / fmt::format("weft_run_history_{}", ::getpid());
};

TEST_F(RunHistoryTest, ItsRunsOutliveTheHeadAndAClusterThatBeginsAnew) {
  {
    StateStore store(directory_);
    RunHistory history(store);
    history.begin(process(1), "run quickstart", 11);
    history.describe(ProcessId(1), {"box", "/out", "", 0, 0});
    history.begin(process(2), "hello_mesh", 12);
    RunProgress progress;
    progress.step = 7;
    history.end(ProcessId(1), {RunState::kFailed, "no luck"}, progress);
    history.close_unreported(ProcessId(1), "is gone",
                             std::nullopt);  // the run has ended already: no effect
    store.sync_to_disk();
  }
  StateStore store(directory_);
  store.erase_member_rows();
  RunHistory history(store);
  ASSERT_EQ(history.all().size(), 2u);
  const RunRecord& first = history.get(1);
  EXPECT_EQ(first.name, "quickstart");
  EXPECT_EQ(first.description.machine, "box");
  EXPECT_EQ(first.state, RunState::kFailed);
  EXPECT_EQ(first.reason, "no luck");
  EXPECT_EQ(first.progress->step, 7);
  EXPECT_NE(history.running(ProcessId(2)), nullptr);
  history.close_unreported(ProcessId(2), "is gone", std::nullopt);
  EXPECT_EQ(history.get(2).state, RunState::kLost);
  EXPECT_EQ(history.get(2).reason, "its driver is gone");
}

TEST_F(RunHistoryTest, ADetachedRunIsOneFromItsStartAndWhereItsDriverIsStartedAgain) {
  StateStore store(directory_);
  RunHistory history(store);
  const std::uint64_t number = history.start("train", {"a", 3, 50, ""}, "/out");
  EXPECT_EQ(history.get(number).state, RunState::kStarting);
  history.begin(process(1), "run train", 51);
  history.describe(ProcessId(1), {"box", "/out", "a", 3, 0});
  EXPECT_EQ(history.all().size(), 1u);
  EXPECT_EQ(history.get(number).state, RunState::kRunning);
  EXPECT_EQ(history.get(number).pid, 51);
  history.close_unreported(ProcessId(1), "is gone", std::nullopt);
  history.begin(process(2), "run train", 52);
  history.describe(ProcessId(2), {"box", "/out", "a", 3, 1});
  EXPECT_EQ(history.all().size(), 1u);
  EXPECT_EQ(history.get(number).state, RunState::kRunning);
  EXPECT_EQ(history.get(number).reason, "");
  ExitReport evidence;
  evidence.has_parent_report = true;
  evidence.status = 1;
  history.close_unreported(ProcessId(2), "is gone", std::nullopt);
  history.detached_ended({"a", 3, evidence});
  EXPECT_EQ(history.get(number).state, RunState::kFailed);
  // Without an agent, a run is identified by its folder.
  history.begin(process(3), "run other", 60);
  history.describe(ProcessId(3), {"box", "/other", "", 0, 0});
  history.close_unreported(ProcessId(3), "is gone", std::nullopt);
  history.begin(process(4), "run other", 61);
  history.describe(ProcessId(4), {"box", "/other", "", 0, 1});
  EXPECT_EQ(history.all().size(), 2u);
}

TEST_F(RunHistoryTest, ALateExitReportOfAProgramCounts) {
  StateStore store(directory_);
  RunHistory history(store);
  history.begin(process(5), "run train", 50);
  history.close_unreported(ProcessId(5), "is gone", std::nullopt);
  EXPECT_EQ(history.get(1).state, RunState::kLost);
  history.end(ProcessId(5), {RunState::kDone, ""}, std::nullopt);
  EXPECT_EQ(history.get(1).state, RunState::kDone);
  history.end(ProcessId(5), {RunState::kFailed, "again"}, std::nullopt);
  EXPECT_EQ(history.get(1).state, RunState::kDone) << "the first word counts";
}

TEST_F(RunHistoryTest, ARunThatWasCancelledAtOnceIsInterruptedThoughItsHostIsGone) {
  StateStore store(directory_);
  RunHistory history(store);
  const std::uint64_t number = history.start("train", {"a", 3, 50, ""}, "/out");
  history.mark_killed(number);
  history.close_runs_of_host("a", "died: SIGKILL");
  EXPECT_EQ(history.get(number).state, RunState::kInterrupted);
  EXPECT_EQ(history.get(number).reason, "weft cancel --now");
  const std::uint64_t other = history.start("other", {"a", 4, 51, ""}, "/other");
  history.close_runs_of_host("a", "died: SIGKILL");
  EXPECT_EQ(history.get(other).state, RunState::kLost);
}

TEST_F(RunHistoryTest, ACancellationCountsForOneEnd) {
  StateStore store(directory_);
  RunHistory history(store);
  history.begin(process(1), "run train", 50);
  history.describe(ProcessId(1), {"box", "/out", "", 0, 0});
  history.mark_killed(1);
  history.mark_killed(1);
  history.end(ProcessId(1), {RunState::kFailed, "no luck"}, std::nullopt);
  EXPECT_EQ(history.get(1).state, RunState::kFailed);
  // The next driver of the run continues its record.
  history.begin(process(2), "run train", 51);
  history.describe(ProcessId(2), {"box", "/out", "", 0, 1});
  ASSERT_EQ(history.all().size(), 1u);
  history.close_unreported(ProcessId(2), "is gone", std::nullopt);
  EXPECT_EQ(history.get(1).state, RunState::kLost);
}

TEST_F(RunHistoryTest, ACancellationMovesToTheRecordThatTheRunContinues) {
  StateStore store(directory_);
  RunHistory history(store);
  const std::uint64_t number = history.start("train", {"a", 3, 50, ""}, "/out");
  history.begin(process(1), "run train", 51);
  history.mark_killed(2);
  history.describe(ProcessId(1), {"box", "/out", "a", 3, 0});
  ASSERT_EQ(history.all().size(), 1u);
  history.close_unreported(ProcessId(1), "is gone", std::nullopt);
  EXPECT_EQ(history.get(number).state, RunState::kInterrupted);
}

TEST_F(RunHistoryTest, ALongRunThatHasJustEndedIsKept) {
  StateStore store(directory_);
  RunHistory history(store);
  history.begin(process(1'000'000), "run long", 1);
  for (std::uint64_t i = 1; i <= RunHistory::kMaxEndedRuns; ++i) {
    history.begin(process(i), "run short", 1);
    history.end(ProcessId(i), {}, std::nullopt);
  }
  history.end(ProcessId(1'000'000), {}, std::nullopt);
  EXPECT_EQ(history.all().size(), RunHistory::kMaxEndedRuns);
  EXPECT_EQ(history.get(1).name, "long");
  EXPECT_TRUE(history.has_reported_end(ProcessId(1'000'000)));
}

TEST_F(RunHistoryTest, AHostThatIsGoneClosesAllOfItsRunsThoughOthersHaveEnded) {
  StateStore store(directory_);
  RunHistory history(store);
  (void)history.start("train", {"a", 1, 50, ""}, "/out");
  const std::uint64_t last = history.start("train", {"a", 2, 50, ""}, "/out");
  for (std::uint64_t i = 1; i <= RunHistory::kMaxEndedRuns; ++i) {
    history.begin(process(i), "run short", 1);
    history.end(ProcessId(i), {}, std::nullopt);
  }
  history.close_runs_of_host("a", "died: SIGKILL");
  EXPECT_EQ(history.all().size(), RunHistory::kMaxEndedRuns);
  EXPECT_EQ(history.get(last).state, RunState::kLost);
}

TEST_F(RunHistoryTest, OfThoseThatHaveEndedTheLastOnesAreKeptAndNumbersGrow) {
  StateStore store(directory_);
  RunHistory history(store);
  history.begin(process(1'000'000), "lives", 1);
  for (std::uint64_t i = 1; i <= RunHistory::kMaxEndedRuns + 5; ++i) {
    history.begin(process(i), "run r", 1);
    history.end(ProcessId(i), {}, std::nullopt);
  }
  EXPECT_EQ(history.all().size(), RunHistory::kMaxEndedRuns + 1);
  EXPECT_EQ(history.all().begin()->second.name, "lives");
  EXPECT_EQ(history.all().rbegin()->first, RunHistory::kMaxEndedRuns + 6);
}

}  // namespace
}  // namespace weft::actors

#include "actors/head/run_book.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace weft::actors {
namespace {

class RunBookTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(directory_); }
  static ProcessRef process(std::uint64_t id) { return {ProcessId(id), "driver", {}}; }
  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / fmt::format("weft_run_book_{}", ::getpid());
};

TEST_F(RunBookTest, ItsRunsOutliveTheHeadAndAClusterThatBeginsAnew) {
  {
    StateStore store(directory_);
    RunBook book(store);
    book.begin(process(1), "run quickstart", 11);
    book.describe(ProcessId(1), {"box", "/out"});
    book.begin(process(2), "hello_mesh", 12);
    RunProgress progress;
    progress.step = 7;
    book.end(ProcessId(1), {RunState::kFailed, "no luck"}, progress);
    book.gone(ProcessId(1), "is gone", std::nullopt);  // known already
    store.sync();
  }
  StateStore store(directory_);
  store.forget_rows();
  RunBook book(store);
  ASSERT_EQ(book.all().size(), 2u);
  const RunRecord& first = book.get(1);
  EXPECT_EQ(first.name, "quickstart");
  EXPECT_EQ(first.description.machine, "box");
  EXPECT_EQ(first.state, RunState::kFailed);
  EXPECT_EQ(first.why, "no luck");
  EXPECT_EQ(first.progress->step, 7);
  EXPECT_NE(book.running(ProcessId(2)), nullptr);
  book.gone(ProcessId(2), "is gone", std::nullopt);
  EXPECT_EQ(book.get(2).state, RunState::kLost);
  EXPECT_EQ(book.get(2).why, "its driver is gone");
}

TEST_F(RunBookTest, OfThoseThatHaveEndedTheLastOnesAreKeptAndNumbersGrow) {
  StateStore store(directory_);
  RunBook book(store);
  book.begin(process(1'000'000), "lives", 1);
  for (std::uint64_t i = 1; i <= RunBook::kEnded + 5; ++i) {
    book.begin(process(i), "run r", 1);
    book.end(ProcessId(i), {}, std::nullopt);
  }
  EXPECT_EQ(book.all().size(), RunBook::kEnded + 1);
  EXPECT_EQ(book.all().begin()->second.name, "lives");
  EXPECT_EQ(book.all().rbegin()->first, RunBook::kEnded + 6);
}

}  // namespace
}  // namespace weft::actors

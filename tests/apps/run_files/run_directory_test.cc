#include "apps/run_files/run_directory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;

class RunDirectoryTest : public ::testing::Test {
 protected:
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  ErrorCode code_of_prepare(const fs::path& path) {
    try {
      RunDirectory::prepare(path);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }

  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
};

TEST_F(RunDirectoryTest, AFreshPathIsCreatedWithItsFolders) {
  const RunDirectory run = RunDirectory::prepare(root_ / "runs" / "a");
  EXPECT_TRUE(fs::is_directory(run.checkpoints()));
  EXPECT_TRUE(fs::is_directory(run.logs()));
  EXPECT_FALSE(run.moved_aside());
  EXPECT_EQ(RunDirectory::open(root_ / "runs" / "a").metrics(), run.metrics());
}

TEST_F(RunDirectoryTest, AnOlderRunIsMovedAsideAndKept) {
  for (int i = 1; i <= 3; ++i) {
    const RunDirectory run = RunDirectory::prepare(root_ / "a/");
    write(run.metrics(), std::to_string(i));
    if (i > 1) {
      EXPECT_EQ(run.moved_aside(), root_ / ("a." + std::to_string(i - 1)));
    }
  }
  std::string first;
  std::ifstream(root_ / "a.1" / "metrics.jsonl") >> first;
  EXPECT_EQ(first, "1");
  std::string newest;
  std::ifstream(root_ / "a" / "metrics.jsonl") >> newest;
  EXPECT_EQ(newest, "3");
}

TEST_F(RunDirectoryTest, ARunThatFailedAtItsStartDoesNotTakeTheNameOfResults) {
  { write(RunDirectory::prepare(root_ / "a").metrics(), "good"); }
  for (int start = 0; start < 3; ++start) {
    RunDirectory failed = RunDirectory::prepare(root_ / "a");
    EXPECT_EQ(failed.moved_aside(), root_ / "a.1");
    write(failed.logs() / "head.log", "no host has joined");
    write(failed.path() / "events.jsonl", "{}");
    write(failed.config(), "name: a");
    fs::create_directories(failed.inputs() / "1");
    fs::create_directories(failed.path() / "state");
    write(failed.path() / "state" / "head.db", "of the run's own head");
    EXPECT_FALSE(failed.has_results());
    EXPECT_EQ(failed.restore_earlier_run(), root_ / "a.failed");
  }
  std::string kept;
  std::ifstream(root_ / "a" / "metrics.jsonl") >> kept;
  EXPECT_EQ(kept, "good");
  EXPECT_TRUE(fs::exists(root_ / "a.failed" / "logs" / "head.log"));
  EXPECT_FALSE(fs::exists(root_ / "a.1"));
  EXPECT_TRUE(RunDirectory::prepare(root_ / "a").moved_aside()) << "its name is free again";
}

TEST_F(RunDirectoryTest, AFailedFolderThatHasResultsSinceIsKept) {
  { write(RunDirectory::prepare(root_ / "a").metrics(), "good"); }
  { RunDirectory::prepare(root_ / "a").restore_earlier_run(); }
  write(root_ / "a.failed" / "metrics.jsonl", "of a run that was resumed there");
  EXPECT_EQ(RunDirectory::prepare(root_ / "a").restore_earlier_run(), root_ / "a.failed.1");
  EXPECT_TRUE(fs::exists(root_ / "a.failed" / "metrics.jsonl"));
}

TEST_F(RunDirectoryTest, FilesOfAKilledStartMoveAside) {
  { write(RunDirectory::prepare(root_ / "a").logs() / "head.log", "killed"); }
  RunDirectory next = RunDirectory::prepare(root_ / "a");
  EXPECT_FALSE(next.moved_aside());
  EXPECT_TRUE(fs::exists(root_ / "a.failed" / "logs" / "head.log"));
  EXPECT_EQ(next.restore_earlier_run(), std::nullopt) << "no run has to come back";
  write(next.checkpoints() / "one", "state");
  EXPECT_TRUE(next.has_results());
}

TEST_F(RunDirectoryTest, ResumingFromACheckpointInsideContinuesInPlace) {
  { write(RunDirectory::prepare(root_ / "a").metrics(), "kept"); }
  const RunDirectory run =
      RunDirectory::prepare(root_ / "a", root_ / "a" / "checkpoints" / "latest");
  EXPECT_FALSE(run.moved_aside());
  EXPECT_TRUE(fs::exists(run.metrics()));
}

TEST_F(RunDirectoryTest, ResumingFromAnotherRunStartsAFreshFolder) {
  { write(RunDirectory::prepare(root_ / "ab").metrics(), "other"); }
  { write(RunDirectory::prepare(root_ / "a").metrics(), "old"); }
  const RunDirectory run = RunDirectory::prepare(root_ / "a", root_ / "ab");
  EXPECT_TRUE(run.moved_aside());
  EXPECT_FALSE(fs::exists(run.metrics()));
}

TEST_F(RunDirectoryTest, ARunThatIsStillWritingIsNotDisturbed) {
  const RunDirectory run = RunDirectory::prepare(root_ / "a");
  EXPECT_EQ(code_of_prepare(root_ / "a"), ErrorCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(run.logs()));
}

TEST_F(RunDirectoryTest, AFolderThatIsNoRunIsNeverTouched) {
  fs::create_directories(root_ / "home");
  write(root_ / "home" / "thesis.tex", "years of work");
  EXPECT_EQ(code_of_prepare(root_ / "home"), ErrorCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(root_ / "home" / "thesis.tex"));
  EXPECT_THAT([&] { RunDirectory::open(root_ / "absent"); },
              test::throws_error(ErrorCode::kNotFound, "there is no folder"));
}

TEST_F(RunDirectoryTest, AnEmptyFolderIsUsed) {
  fs::create_directories(root_ / "empty");
  EXPECT_FALSE(RunDirectory::prepare(root_ / "empty").moved_aside());
}

}  // namespace
}  // namespace weft::apps

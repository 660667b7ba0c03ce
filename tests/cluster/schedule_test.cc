// Tests the output and the exit status of weft schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::HasSubstr;

TEST(ScheduleCommand, ComparesEverythingAndDraws) {
  RealProcesses processes("schedules");
  auto& compare = processes.run(
      "weft", {"schedule", "compare", "--stages", "2", "--microbatches", "4", "--svg", "all.svg"});
  EXPECT_EQ(compare.wait(), 0) << compare.text();
  for (const char* name : {"gpipe ", "dualpipe-v ", "auto ", "drawn in all.svg"})
    EXPECT_THAT(compare.text(), HasSubstr(name));
  EXPECT_TRUE(std::filesystem::exists(processes.directory() / "all.svg"));
}

TEST(ScheduleCommand, ReadsTheSchedulesThatItWrites) {
  RealProcesses processes("schedule_files");
  auto& show = processes.run(
      "weft", {"schedule", "show", "zb-v", "--stages", "2", "--microbatches", "3", "--csv"});
  EXPECT_EQ(show.wait(), 0);
  processes.write("mine.csv", show.text());
  auto& check = processes.run("weft", {"schedule", "check", "mine.csv"});
  EXPECT_EQ(check.wait(), 0) << check.text();
}

TEST(ScheduleCommand, BadScheduleIsStatusOneAndWrongUsageTwo) {
  RealProcesses processes("bad_schedule");
  processes.write("bad.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  auto& check = processes.run("weft", {"schedule", "check", "bad.csv"});
  EXPECT_EQ(check.wait(), 1);
  EXPECT_THAT(
      check.text(),
      HasSubstr(
          "NO  no cycle             0B0 of actor 0 waits for 1B0, 1B0 of actor 1 comes after 1F1"));
  auto& name = processes.run("weft", {"schedule", "draw", "zb-h"});
  EXPECT_EQ(name.wait(), 2);
  EXPECT_THAT(name.text(), HasSubstr("did you mean 'zb-h1'?"));
  auto& action = processes.run("weft", {"schedule", "dra", "zb-h1"});
  EXPECT_EQ(action.wait(), 2);
  EXPECT_THAT(action.text(), HasSubstr("did you mean 'draw'?"));
  auto& none = processes.run("weft", {"schedule", "draw"});
  EXPECT_EQ(none.wait(), 2);
  EXPECT_THAT(none.text(), HasSubstr("which schedule?"));
}

}  // namespace
}  // namespace weft::test

#include "mesh/schedule/schedule_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::string& text, ActionSpelling spelling = ActionSpelling::kDetect) {
  return test::error_message(ErrorCode::kInvalidConfig,
                             [&] { read_schedule(text, "mine.csv", spelling); });
}

TEST(ScheduleText, RowsAreActorsAndBlanksAreIdle) {
  const ScheduleText text = read_schedule("0F0,0F1,,0B0, ,0B1\n ,1F0,1B0,1F1,1B1,\n", "two.csv");
  EXPECT_EQ(to_string(text.schedule), "actor 0: 0F0 0F1 0B0 0B1\nactor 1: 1F0 1B0 1F1 1B1\n");
  EXPECT_EQ(text.schedule.name, "two.csv");
  EXPECT_EQ(text.schedule.stages, 2);
  EXPECT_EQ(text.schedule.microbatches, 2);
  EXPECT_THAT(text.schedule.actor_of_stage, ElementsAre(0, 1));
  EXPECT_FALSE(text.edges);
}

TEST(ScheduleText, ByteOrderMarksQuotesAndEmptyCellsOfSpreadsheetsAreIgnored) {
  const std::string rows = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  const Schedule plain = read_schedule("# name: mine\n" + rows, "s.csv").schedule;
  for (const char* text :
       {"\xef\xbb\xbf# name: mine\n0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n",
        "# name: mine,,,\r\n\r\n0F0,0F1,0B0,0B1\r\n\r\n  \r\n1F0,1B0,1F1,1B1\r\n\r\n",
        "\"# name: mine\",,,\n\"0F0\",\"0F1\",\"0B0\",\"0B1\"\n\"1F0\", \"1B0\" "
        ",\"1F1\",\"1B1\"\n"})
    EXPECT_EQ(read_schedule(text, "s.csv").schedule, plain) << text;
  EXPECT_THAT(error_of("\"0F0,0F1\n"), HasSubstr("mine.csv:1:1: '\"0F0' is not an action"));
}

TEST(ScheduleText, AnActorWithoutActionsIsARowOfCommas) {
  Schedule schedule = read_schedule("0F0,0B0\n1F0,1B0\n", "x").schedule;
  schedule.actors.insert(schedule.actors.begin() + 1, std::vector<Action>());
  schedule.actor_of_stage = {0, 2};
  EXPECT_EQ(read_schedule(write_schedule(schedule), "x").schedule, schedule);
}

TEST(ScheduleText, PlacementFollowsFromTheRows) {
  const ScheduleText text = read_schedule("0F0,3F0,3B0,0B0\r\n1F0,2F0,2B0,1B0\r\n", "v");
  EXPECT_THAT(text.schedule.actor_of_stage, ElementsAre(0, 1, 1, 0));
}

TEST(ScheduleText, CompoundsJoinTheirActions) {
  const ScheduleText text = read_schedule("0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,1B1,0B0,0B1\n", "pair");
  EXPECT_FALSE(text.schedule.actors[0][2].joins_previous);
  EXPECT_TRUE(text.schedule.actors[0][3].joins_previous);
  EXPECT_EQ(to_string(text.schedule), "actor 0: 0F0 1F0 (0F1;1B0) 1F1 1B1 0B0 0B1\n");
}

TEST(ScheduleText, TransfersAreDroppedAndCounted) {
  const ScheduleText text = read_schedule(
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0RESHARD,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_"
      "GRAD,1OPT\n",
      "comms");
  EXPECT_EQ(text.ignored_operations, 6);
  EXPECT_EQ(to_string(text.schedule),
            "actor 0: 0F0 0B0 0REDUCE_GRAD\nactor 1: 1F0 1B0 1REDUCE_GRAD 1OPT\n");
}

TEST(ScheduleText, OldSpellingIsDetected) {
  const std::string current = to_string(read_schedule("0F0,0I0,0W0,0F1,0B1\n", "x").schedule);
  EXPECT_EQ(to_string(read_schedule("0F0,0B0,0W0,0F1,0BW1\n", "x").schedule), current);
  EXPECT_EQ(to_string(read_schedule("0F0,0B0,0W0\n", "x").schedule), "actor 0: 0F0 0I0 0W0\n");
  EXPECT_EQ(to_string(read_schedule("0F0,0B0\n", "x").schedule), "actor 0: 0F0 0B0\n");
  EXPECT_EQ(to_string(read_schedule("0F0,0B0\n", "x", ActionSpelling::kOld).schedule),
            "actor 0: 0F0 0I0\n");
}

TEST(ScheduleText, AWrittenScheduleReadsBackEqual) {
  Schedule schedule = read_schedule(
                          "0F0,3F0,(0F1;3B0)OVERLAP_F_B,3F1,3I1,3W1,0B0,0B1\n1F0,2F0,2B0,1R0,1B0,"
                          "1F1,2F1,2B1,1B1,1OPT\n",
                          "v")
                          .schedule;
  schedule.name = "my own";
  schedule.vocabulary_barriers = 2;
  const std::vector<StageEdge> edges = {{0, 1, 4096}, {1, 2, 0}, {0, 3, 1ull << 40}};
  const ScheduleText back = read_schedule(write_schedule(schedule, edges), "file");
  EXPECT_EQ(back.schedule, schedule);
  ASSERT_TRUE(back.edges);
  EXPECT_EQ(*back.edges, edges);
  const std::string rows = write_schedule(schedule, edges, ScheduleHeader::kNone);
  EXPECT_EQ(write_schedule(read_schedule(rows, "file").schedule, {}, ScheduleHeader::kNone), rows);
}

TEST(ScheduleText, ARowOfBlankCellsIsAnActorThatDoesNothing) {
  const Schedule schedule = read_schedule("0F0,0B0\n,\n1F0,1B0\n\n\n", "x").schedule;
  EXPECT_EQ(schedule.actors.size(), 3u);
  EXPECT_THAT(schedule.actor_of_stage, ElementsAre(0, 2));
}

TEST(ScheduleText, StagesWithoutActionsMayBePlaced) {
  EXPECT_EQ(read_schedule("# actors of stages: 0 1 1\n0F0,0B0\n1F0,1B0\n", "x").schedule.stages, 3);
}

TEST(ScheduleText, ErrorsHaveLineAndColumn) {
  EXPECT_THAT(error_of("0F0,0B0\n1F0,1X0\n"), HasSubstr("mine.csv:2:5: '1X0' is not an action"));
  EXPECT_THAT(error_of("# a comment\n0F0,  F0\n"),
              HasSubstr("mine.csv:2:7: 'F0' is not an action"));
  EXPECT_THAT(error_of("0F0,0B\n"),
              HasSubstr("mine.csv:1:5: '0B' lacks its microbatch, as in 0B0"));
  EXPECT_THAT(error_of("0F99999999\n"), HasSubstr("mine.csv:1:3: '99999999' is not a microbatch"));
  EXPECT_THAT(error_of("0F0,(0F1;0B0\n"), HasSubstr("mine.csv:1:5: a compound needs a ')'"));
  EXPECT_THAT(error_of("0F0,(0F1;0B0)OVERLAP\n"), HasSubstr("mine.csv:1:14: expected OVERLAP_F_B"));
  EXPECT_THAT(error_of("0F0,(0F1;0SEND_F0)\n"), HasSubstr("mine.csv:1:10: SEND_F cannot be part"));
  EXPECT_THAT(
      error_of("0F0\n1F0,0B0\n"),
      HasSubstr("mine.csv:2:5: stage 0 is in this row and also in the row of actor 0 (line 1)"));
  EXPECT_THAT(error_of("0F0,2F0\n"), HasSubstr("stage 1 has no action"));
  EXPECT_THAT(error_of("# actors of stages: 1\n0F0\n"),
              HasSubstr("mine.csv:2:1: stage 0 is placed on actor 1"));
  EXPECT_THAT(error_of("# edge: 0 1 x bytes\n0F0\n"),
              HasSubstr("mine.csv:1:13: 'x' is not a number of bytes"));
  EXPECT_THAT(error_of("# edge: 0 1\n0F0\n"), HasSubstr("mine.csv:1:9: there is no edge 0 -> 1"));
  EXPECT_THAT(error_of("0F0,0I0,0BW0\n", ActionSpelling::kCurrent),
              HasSubstr("mine.csv:1:9: BW is mixed with I: BW is the old spelling"));
  EXPECT_THAT(error_of("0REDUCE_GRAD3\n"), HasSubstr("has no microbatch"));
  EXPECT_THAT(error_of("\n\n"), HasSubstr("no row of actions"));
}

}  // namespace
}  // namespace weft::mesh

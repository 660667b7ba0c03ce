#include "apps/cli/schedule_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

ScheduleQuery request_of(std::vector<std::string> schedules) {
  ScheduleQuery request;
  request.schedules = std::move(schedules);
  return request;
}

std::string error_of(const ScheduleQuery& request) {
  return test::error_message(ErrorCode::kInvalidArgument, [&] { parse_schedule_query(request); });
}

TEST(ScheduleQuery, NamesGetTheWorkOfTheirActors) {
  const auto cases = parse_schedule_query(request_of({"1f1b", "zb-v"}));
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].schedule.stages, 4);
  EXPECT_EQ(cases[1].schedule.stages, 8);
  EXPECT_DOUBLE_EQ(cases[0].costs.stages[0].forward, 1);
  EXPECT_DOUBLE_EQ(cases[1].costs.stages[0].forward, 0.5);
}

TEST(ScheduleQuery, CostsComePerStageAndPerEdge) {
  ScheduleQuery request = request_of({"gpipe"});
  request.stages = 3;
  request.times = "1,2,3;4,5,6;7,8,9";
  request.transfer = "0.5,0.25";
  request.skips = {"0-2:4:100"};
  request.tensor = 8;
  request.memory = "1,2,3";
  const ScheduleCase one = parse_schedule_query(request).front();
  EXPECT_DOUBLE_EQ(one.costs.stages[1].input_grad, 5);
  EXPECT_DOUBLE_EQ(one.costs.edges[1].backward, 0.25);
  EXPECT_EQ(one.costs.edges[2].edge, (mesh::StageEdge{0, 2, 100}));
  EXPECT_DOUBLE_EQ(one.costs.edges[2].forward, 4);
  EXPECT_THAT(one.limits.memory_of_actor, testing::ElementsAre(1, 2, 3));
}

TEST(ScheduleQuery, FilesAreReadWithTheirEdges) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "request_test_schedule.csv";
  std::ofstream(path) << "# edge: 0 1 64 bytes\n0F0,0SEND_F0,,0B0\n,1RECV_F0,1F0,1B0\n";
  ScheduleQuery request = request_of({path.string()});
  request.transfer = "0.5";
  const ScheduleCase one = parse_schedule_query(request).front();
  EXPECT_EQ(one.schedule.actors.size(), 2u);
  EXPECT_EQ(one.costs.edges.front().edge.bytes, 64u);
  EXPECT_DOUBLE_EQ(one.costs.edges.front().forward, 0.5);
  EXPECT_THAT(one.note, HasSubstr("2 transfers and parameter moves left out"));
  std::filesystem::remove(path);
}

TEST(ScheduleQuery, AutoKeepsWithinTheMemory) {
  ScheduleQuery request = request_of({"auto"});
  request.stages = 2;
  request.microbatches = 4;
  request.memory = "2";
  const ScheduleCase one = parse_schedule_query(request).front();
  EXPECT_LE(mesh::simulate(one.schedule, one.costs, one.options).peak(), 2);
  EXPECT_THAT(one.note, HasSubstr("searched: "));
}

TEST(ScheduleQuery, MistakesNameTheOption) {
  EXPECT_THAT(error_of(request_of({"zbv"})),
              HasSubstr("there is neither a schedule nor a file 'zbv'; did you mean 'zb-v'?"));
  EXPECT_THAT(error_of(request_of({"./none.csv"})),
              HasSubstr("cannot read the schedule file ./none.csv"));
  ScheduleQuery request = request_of({"1f1b"});
  request.times = "1,2";
  EXPECT_THAT(error_of(request), HasSubstr("--times 1,2: expected F,I,W"));
  request.times = "1,2,x";
  EXPECT_THAT(error_of(request), HasSubstr("'x' is not a number"));
  request.times = "1,2,3;1,2,3";
  EXPECT_THAT(error_of(request), HasSubstr("2 triples for 4 stages"));
  request = request_of({"1f1b"});
  request.transfer = "1,2";
  EXPECT_THAT(error_of(request), HasSubstr("2 times for 3 edges"));
  request = request_of({"1f1b"});
  request.skips = {"3-1"};
  EXPECT_THAT(error_of(request),
              HasSubstr("--skip 3-1: a skip connection leads from a stage to a later one"));
  request = request_of({"1f1b"});
  request.memory = "1,2,3";
  EXPECT_THAT(error_of(request), HasSubstr("3 caps for 4 actors"));
  request = request_of({"1f1b"});
  request.stages = 0;
  EXPECT_THAT(error_of(request), HasSubstr("--stages 0: expected a number from 1 to"));
}

TEST(ScheduleQuery, VocabularyPassesGetTheirTimesAndBarriers) {
  ScheduleQuery request = request_of({"1f1b", "v-half", "auto"});
  request.vocabulary = "0.2,0.1";
  for (const ScheduleCase& one : parse_schedule_query(request)) {
    EXPECT_NO_THROW(require_vocabulary(one.schedule, mesh::VocabularyMode::kVocab2)) << one.label;
    EXPECT_DOUBLE_EQ(one.costs.stages[0].vocabulary_scores, 0.2) << one.label;
    EXPECT_DOUBLE_EQ(one.costs.stages[0].vocabulary_grads, 0.1) << one.label;
    EXPECT_THAT(one.settings, HasSubstr(", S,T 0.2,0.1, transfer"));
  }
  request.schedules = {"1f1b"};
  request.vocabulary = "0.2,0.1,2";
  EXPECT_EQ(parse_schedule_query(request).front().schedule.vocabulary_barriers, 2);
  request.vocabulary = "0.2,0.1,interlaced";
  EXPECT_NO_THROW(require_vocabulary(parse_schedule_query(request).front().schedule,
                                     mesh::VocabularyMode::kInterlaced));
}

TEST(ScheduleQuery, VocabularyThatCannotBeIsRefused) {
  ScheduleQuery request = request_of({"1f1b"});
  for (const char* text : {"0.2", "0.2,0.1,3", "0.2,0.1,1,1"}) {
    request.vocabulary = text;
    EXPECT_THAT(error_of(request), HasSubstr("expected S,T or S,T,BARRIERS")) << text;
  }
  request.vocabulary = "0.2,x";
  EXPECT_THAT(error_of(request), HasSubstr("--vocabulary 0.2,x: 'x' is not a number"));
  request.vocabulary = "0.2,0.1";
  request.stages = 1;
  EXPECT_THAT(error_of(request), HasSubstr("at least two pipeline stages"));
  request.stages = 4;
  request.schedules = {"zb-h1"};
  request.vocabulary = "0.2,0.1,interlaced";
  EXPECT_THAT(error_of(request), HasSubstr("goes with the schedule 1f1b"));
}

TEST(ScheduleQuery, FilesWithPassesKeepThemAndOthersGetThem) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "request_test_passes.csv";
  std::ofstream(path) << "# vocabulary barriers: 1\n0F0,0S0,0B0,0T0\n1F0,1S0,1B0,1T0\n";
  ScheduleQuery request = request_of({path.string()});
  request.vocabulary = "0.2,0.1,1";
  const ScheduleCase one = parse_schedule_query(request).front();
  EXPECT_EQ(one.schedule.actors[0].size(), 4u);
  EXPECT_DOUBLE_EQ(one.costs.stages[1].vocabulary_scores, 0.2);
  request.vocabulary = "0.2,0.1,2";
  EXPECT_THAT(error_of(request), HasSubstr("asks for 2 barriers, but"));
  std::ofstream(path) << "0F0,0B0\n1F0,1B0\n";
  const ScheduleCase other = parse_schedule_query(request).front();
  EXPECT_NO_THROW(require_vocabulary(other.schedule, mesh::VocabularyMode::kVocab1));
  EXPECT_THAT(other.note, HasSubstr("vocabulary passes put in"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace weft::apps

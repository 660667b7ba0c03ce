#include "apps/cli/schedule_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/cli/timeline_drawing.h"
#include "apps/cli/timeline_text.h"
#include "mesh/schedule/named_schedules.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

struct Played {
  std::vector<ScheduleCase> cases;
  std::vector<mesh::ScheduleSimulation> simulations;
};

Played played(std::vector<std::string> schedules, const std::string& memory = "") {
  ScheduleQuery request;
  request.schedules = std::move(schedules);
  request.stages = 2;
  request.microbatches = 3;
  request.memory = memory;
  request.transfer = "0.5";
  Played result;
  result.cases = parse_schedule_query(request);
  for (const ScheduleCase& one : result.cases)
    result.simulations.push_back(mesh::simulate(one.schedule, one.costs, one.options));
  return result;
}

TEST(ScheduleReport, SimulationSaysWhereTheTimeGoes) {
  const Played one = played({"gpipe"}, "2");
  const std::string text = describe_simulation(one.cases[0], one.simulations[0]);
  EXPECT_THAT(text, HasSubstr("makespan        13\n"));
  EXPECT_THAT(text, HasSubstr("bubble          4 (30.77 % of the makespan)"));
  EXPECT_THAT(text, HasSubstr("peak memory     3  does NOT fit"));
  EXPECT_THAT(text, HasSubstr("critical path   F 4, transfers 1, B 8"));
  EXPECT_THAT(text, HasSubstr("over 2"));
}

TEST(ScheduleReport, ComparisonMarksTheFastestThatFits) {
  const Played both = played({"gpipe", "zb-h1"}, "2");
  const std::string text = describe_comparison(both.cases, both.simulations);
  EXPECT_THAT(text, testing::ContainsRegex("gpipe .* does not fit\n"));
  EXPECT_THAT(text, testing::ContainsRegex("zb-h1 .*  \\*\n"));
  EXPECT_EQ(comparison_json(both.cases, both.simulations).at(1).at("fits"), true);
}

TEST(ScheduleReport, ComparisonOfAllFitsEightyColumns) {
  const Played all = played(mesh::schedule_names(), "1");
  std::istringstream lines(describe_comparison(all.cases, all.simulations));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(ScheduleReport, JsonHasEveryActionAndTransfer) {
  const Played one = played({"zb-h1"});
  const auto json = simulation_json(one.cases[0], one.simulations[0]);
  EXPECT_EQ(json.at("actors").at(0).at("actions").size(), 9u);
  EXPECT_EQ(json.at("transfers").size(), 6u);
  EXPECT_EQ(json.at("makespan"), one.simulations[0].makespan);
  EXPECT_EQ(schedule_json(one.cases[0]).at("actors").at(1).at(0).at("action"), "1F0");
}

TEST(ScheduleReport, CheckShowsEachPropertyAndChannel) {
  const Played one = played({"1f1b"}, "1");
  const auto report =
      mesh::check_schedule(one.cases[0].schedule, one.cases[0].costs, one.cases[0].limits);
  const std::string text = describe_check(one.cases[0], report);
  EXPECT_THAT(text, HasSubstr("ok  no cycle"));
  EXPECT_THAT(
      text,
      HasSubstr("NO  memory               actor 0 needs memory 2 during 0F1, but its limit is 1"));
  EXPECT_THAT(text, testing::ContainsRegex("blocking +1\n"));
  EXPECT_THAT(text, testing::ContainsRegex("a lane per edge +0\n"));
  EXPECT_EQ(check_json(one.cases[0], report).at("valid"), false);
}

TEST(TimelineText, ShowsActionsInTimeAndMemoryUnderThem) {
  ScheduleQuery request;
  request.schedules = {"1f1b"};
  request.stages = 2;
  request.microbatches = 2;
  const ScheduleCase one = parse_schedule_query(request).front();
  const std::string text =
      draw_timeline(one, mesh::simulate(one.schedule, one.costs), {.columns = 40, .colour = false});
  EXPECT_EQ(text,
            "0  F0--F1--        B0======    B1======\n"
            "1      F0--B0======F1--B1======        \n"
            "memory, of 2\n"
            "0  ▄▄▄▄████████████████████▄▄▄▄▄▄▄▄▄▄▄▄  2\n"
            "1      ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄          1\n");
}

TEST(TimelineText, WhereBlocksAreNarrowLettersOrALegendTellTheKinds) {
  ScheduleQuery request;
  request.schedules = {"zb-h1"};
  request.stages = 8;
  request.microbatches = 16;
  const ScheduleCase one = parse_schedule_query(request).front();
  const std::string text =
      draw_timeline(one, mesh::simulate(one.schedule, one.costs), {.columns = 80, .colour = false});
  EXPECT_THAT(text, HasSubstr("7         FIFIFIFI"));
  EXPECT_THAT(text, HasSubstr("F-- forward, I~~ input gradient, W.. weight gradient\n"));
  EXPECT_THAT(
      draw_schedules({one}, {mesh::simulate(one.schedule, one.costs)}).str(),
      testing::AllOf(HasSubstr("8 stages on 8 actors, 16 microbatches, F,I,W 1,1,1, transfer 0"),
                     HasSubstr("time, in the unit of")));
}

TEST(TimelineText, FitsTheScreen) {
  ScheduleQuery request;
  request.schedules = {"zb-v"};
  request.microbatches = 40;
  const ScheduleCase one = parse_schedule_query(request).front();
  const std::string text =
      draw_timeline(one, mesh::simulate(one.schedule, one.costs), {.columns = 80, .colour = false});
  EXPECT_LE(text.find('\n'), 80u);
}

TEST(TimelineDrawing, ShowsEverySchedule) {
  const Played both = played({"gpipe", "zb-h1"}, "2");
  const std::string svg = draw_schedules(both.cases, both.simulations).str();
  EXPECT_THAT(svg, HasSubstr(">gpipe<"));
  EXPECT_THAT(svg, HasSubstr(">zb-h1<"));
  EXPECT_THAT(svg, HasSubstr("1W2 from"));
  EXPECT_THAT(svg, HasSubstr("gradient of microbatch 2, stage 1 to 0"));
}

ScheduleCase vocabulary_case() {
  ScheduleQuery request;
  request.schedules = {"1f1b"};
  request.stages = 2;
  request.microbatches = 3;
  request.vocabulary = "1,1";
  return parse_schedule_query(request).front();
}

TEST(TimelineText, VocabularyPassesHaveLooksOfTheirOwn) {
  ScheduleCase one = vocabulary_case();
  const std::string text =
      draw_timeline(one, mesh::simulate(one.schedule, one.costs), {.columns = 80, .colour = false});
  EXPECT_THAT(text, testing::StartsWith("0  F0--F1--F2--S0^^T0++"));
  // Input passes take no time here, so the timeline does not show them.
  EXPECT_THAT(text, testing::Not(HasSubstr("embedding")));
  for (mesh::StageCosts& stage : one.costs.stages) stage.input_forward = stage.input_backward = 0.5;
  EXPECT_THAT(
      draw_timeline(one, mesh::simulate(one.schedule, one.costs), {.columns = 60, .colour = false}),
      testing::AllOf(HasSubstr("i<< embedding"), HasSubstr("b>> embedding gradient")));
}

TEST(TimelineDrawing, VocabularyPassesHaveColoursAndALegend) {
  const ScheduleCase one = vocabulary_case();
  const std::string svg = draw_schedules({one}, {mesh::simulate(one.schedule, one.costs)}).str();
  EXPECT_THAT(svg, HasSubstr("S, scores of a part of the vocabulary"));
  for (const char* action : {"1S2 from", "0T0 from", "1IF2 from", "0IB1 from"})
    EXPECT_THAT(svg, HasSubstr(action));
  const Played plain = played({"gpipe"});
  EXPECT_THAT(draw_schedules(plain.cases, plain.simulations).str(),
              testing::Not(HasSubstr("embedding")));
}

}  // namespace
}  // namespace weft::apps

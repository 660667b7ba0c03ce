#include "apps/cluster_view/actor_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace weft::apps {
namespace {

using actors::ActorId;
using actors::ActorStatus;
using actors::ActorSurvey;
using actors::ProcessId;
using actors::ProcessSurvey;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr ActorId kNamed{5};

ActorStatus actor(const std::string& label, std::uint64_t process) {
  ActorStatus status{"quickstart", label, "example.worker", "worker0", 4100, "running", {}};
  status.pid += static_cast<std::int64_t>(process);
  status.address.process.id = ProcessId(process);
  status.address.actor = kNamed;
  return status;
}

/// Answer of a process whose actor runs `calls` calls, while `queue` others wait.
ProcessSurvey answer(std::uint64_t process, std::size_t calls, std::uint64_t queue) {
  ProcessSurvey survey;
  survey.process.id = ProcessId(process);
  ActorSurvey busy{kNamed, "", {}, queue, {}};
  busy.running.resize(calls);
  survey.actors.push_back(ActorSurvey{ActorId(1), "device", {}, 0, {}});
  survey.actors.push_back(busy);
  return survey;
}

ProcessSurvey silence(std::uint64_t process, const std::string& problem) {
  ProcessSurvey survey;
  survey.process.id = ProcessId(process);
  survey.problem = problem;
  return survey;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(ActorRows, CallsAndQueueComeFromTheActorOfTheProcess) {
  SurveyedProcesses surveyed;
  surveyed.answers = {answer(1, 2, 7), answer(2, 0, 0)};
  const auto rows = actor_rows({actor("hits", 1), actor("pool[worker=0]", 2)}, surveyed);
  EXPECT_EQ(rows[0].load, (ActorLoad{2, 7}));
  EXPECT_EQ(rows[1].load, (ActorLoad{0, 0}));
  EXPECT_EQ(rows[0].note + rows[1].note, "");
}

TEST(ActorRows, AnAnswerCountsMoreThanAFailureToAsk) {
  SurveyedProcesses surveyed;
  surveyed.answers = {silence(1, "is not connected to agent"), answer(1, 1, 0)};
  EXPECT_EQ(actor_rows({actor("hits", 1)}, surveyed)[0].load, (ActorLoad{1, 0}));
}

TEST(ActorRows, AProcessWithoutAnAnswerHasAReason) {
  SurveyedProcesses surveyed;
  surveyed.answers = {silence(1, "does not answer within 2.00 s"), answer(3, 0, 0)};
  surveyed.answers[1].actors.clear();
  surveyed.names.push_back({ProcessId(1), "hits", "", false, 0, "it is stopped (state T)"});
  const auto rows = actor_rows({actor("a", 1), actor("b", 2), actor("c", 3)}, surveyed);
  for (const ActorRow& row : rows) EXPECT_FALSE(row.load);
  EXPECT_EQ(rows[0].note, "does not answer within 2.00 s: it is stopped (state T)");
  EXPECT_THAT(rows[1].note, HasSubstr("neither its host nor its driver answers"));
  EXPECT_THAT(rows[2].note, HasSubstr("has ended it"));
}

TEST(ActorRows, ADeadActorNeedsNoReason) {
  ActorStatus dead = actor("hits", 1);
  dead.state = "dead";
  const auto rows = actor_rows({dead}, {});
  EXPECT_FALSE(rows[0].load);
  EXPECT_EQ(rows[0].note, "");
}

TEST(ActorTable, HasALinePerActor) {
  ActorStatus of_the_cluster = actor("clock", 2);
  of_the_cluster.run = "";
  of_the_cluster.host = "";
  of_the_cluster.pid = 0;
  const auto lines = lines_of(actors_text(
      {{actor("hits", 1), ActorLoad{1, 12}, ""}, {of_the_cluster, std::nullopt, ""}}, 0));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "name             class           host     pid   state    calls  queue");
  EXPECT_EQ(lines[1], "quickstart/hits  example.worker  worker0  4101  running      1     12");
  EXPECT_EQ(lines[2], "clock            example.worker  -        -     running      -      -");
}

TEST(ActorTable, ClassesAndHostsAreShortenedToTheWidthAndNamesAreNot) {
  ActorStatus wide = actor("pool_of_workers[worker=11]", 1);
  wide.interface = "example.of.a.long.interface.name";
  wide.host = "gpu-node-0017.cluster";
  const std::vector<ActorRow> rows = {{wide, ActorLoad{0, 0}, ""}, {actor("hits", 2), {}, ""}};
  const std::string text = actors_text(rows, 100);
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_THAT(text, AllOf(HasSubstr("quickstart/pool_of_workers[worker=11]"), HasSubstr(".."),
                          Not(HasSubstr(wide.interface))));
  EXPECT_THAT(actors_text(rows, 0), AllOf(HasSubstr(wide.interface), HasSubstr(wide.host)));
}

TEST(ActorTable, EqualNotesAreMerged) {
  const std::vector<ActorRow> rows = {{actor("a", 1), {}, "is silent"},
                                      {actor("b", 2), ActorLoad{0, 0}, ""},
                                      {actor("c", 3), {}, "is silent"},
                                      {actor("d", 4), {}, "is late"}};
  const auto lines = lines_of(actors_text(rows, 80));
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[5], "quickstart/a and 1 more: is silent");
  EXPECT_EQ(lines[6], "quickstart/d: is late");
}

TEST(ActorTable, WithoutActorsSaysWhatToDo) {
  EXPECT_THAT(actors_text({}, 80),
              AllOf(StartsWith("this cluster has no named actor"), HasSubstr("cluster.spawn")));
  EXPECT_EQ(actors_json({}).dump(), "[]");
}

TEST(ActorTable, JsonHasAllFields) {
  const auto json =
      actors_json({{actor("hits", 1), ActorLoad{1, 2}, ""}, {actor("b", 2), {}, "is silent"}});
  EXPECT_EQ(json[0].dump(),
            R"({"name":"quickstart/hits","run":"quickstart","label":"hits",)"
            R"("class":"example.worker","host":"worker0","pid":4101,"state":"running",)"
            R"("calls":1,"queue":2,"note":""})");
  EXPECT_TRUE(json[1]["calls"].is_null());
  EXPECT_TRUE(json[1]["queue"].is_null());
  EXPECT_EQ(json[1]["note"], "is silent");
}

}  // namespace
}  // namespace weft::apps

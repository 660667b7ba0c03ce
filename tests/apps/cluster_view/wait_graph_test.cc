#include "apps/cluster_view/wait_graph.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::apps {
namespace {

using actors::ActivityWait;
using actors::ActorActivity;
using actors::ActorId;
using actors::ActorSurvey;
using actors::ProcessId;
using actors::ProcessRef;
using actors::ProcessSurvey;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr ActorId kActor(1);

ProcessRef process(std::uint64_t id) { return {ProcessId(id), fmt::format("p{}", id), {}}; }

/// Returns a device process with an actor "front[x=ID]".
ProcessSurvey device(std::uint64_t id) {
  ProcessSurvey survey;
  survey.process = process(id);
  survey.actors.push_back(ActorSurvey{kActor, fmt::format("front[x={}]", id), {}, 0, {}});
  return survey;
}

void add_call(ProcessSurvey& from, ActorId caller, std::uint64_t to, double seconds = 1) {
  from.calls.push_back({caller,
                        {process(to), kActor, fmt::format("front[x={}]", to)},
                        "run",
                        seconds,
                        std::nullopt,
                        true});
}

ProcessLabel driver_name() { return {ProcessId(100), "driver of r", "pid 7", true}; }
ProcessSurvey driver() {
  ProcessSurvey survey;
  survey.process = process(100);
  return survey;
}

/// Puts device `number` in phase `phase`, waiting for transfer `key` (if any) with device `other`,
/// with the transfers `ahead` not begun.
void stand(ProcessSurvey& survey, std::uint32_t number, std::uint64_t phase,
           std::optional<std::uint64_t> key, std::uint32_t other,
           std::vector<std::uint64_t> ahead) {
  ActorActivity activity{"in 0F0", 1, number, phase, {}, std::move(ahead)};
  if (key) activity.wait = ActivityWait{fmt::format("'t{}'", *key), *key, {other}};
  survey.actors[0].activity = activity;
}

TEST(WaitGraph, CallsThatWaitForEachOtherAreACycleOnce) {
  std::vector<ProcessSurvey> surveys = {driver(), device(1), device(2), device(3)};
  add_call(surveys[0], ActorId(0), 1);
  add_call(surveys[1], kActor, 2);
  add_call(surveys[2], kActor, 3);
  add_call(surveys[3], kActor, 2);
  const WaitGraph graph = WaitGraph::of(surveys, {driver_name()});
  ASSERT_EQ(graph.cycles.size(), 1u);
  const std::string text = to_text(graph, std::nullopt);
  EXPECT_THAT(text, HasSubstr("waits for front[x=2]: 'run' for 1.0 s, no deadline  <- CYCLE\n"));
  EXPECT_THAT(text, HasSubstr("cycle: front[x=2] -> front[x=3] -> front[x=2]\n"));
  EXPECT_THAT(text, Not(HasSubstr("in the end")));
}

TEST(WaitGraph, TransfersHoldUpOnlyWhoeverTheOtherHasNotBegun) {
  std::vector<ProcessSurvey> surveys = {device(1), device(2)};
  // Each device waits for a transfer that the other has not begun.
  stand(surveys[0], 0, 5, 11, 1, {12});
  stand(surveys[1], 1, 5, 12, 0, {11});
  WaitGraph graph = WaitGraph::of(surveys, {});
  EXPECT_EQ(graph.cycles.size(), 1u);
  EXPECT_THAT(to_text(graph, std::nullopt),
              HasSubstr("waits for 't11' for 1.0 s, which front[x=2] has not begun  <- CYCLE"));
  // The second device has begun both transfers.
  stand(surveys[1], 1, 5, 12, 0, {});
  graph = WaitGraph::of(surveys, {});
  EXPECT_EQ(graph.cycles.size(), 0u);
  EXPECT_THAT(to_text(graph, std::nullopt),
              HasSubstr("all peers have started it; bytes are in flight, or the network is stuck"));
  // The second device has not reached this phase.
  stand(surveys[1], 1, 4, std::nullopt, 0, {});
  EXPECT_FALSE(WaitGraph::of(surveys, {}).waiters[0].waits[0].peer_started);
}

TEST(WaitGraph, DevicesOfTwoRunsAreNotMixedUp) {
  std::vector<ProcessSurvey> surveys = {device(1), device(2)};
  stand(surveys[0], 0, 5, 11, 1, {});
  stand(surveys[1], 1, 5, std::nullopt, 0, {11});
  ProcessLabel one{ProcessId(1), "front[x=1]", "", false, 1}, two{ProcessId(2), "", "", false, 2};
  EXPECT_TRUE(WaitGraph::of(surveys, {one, two}).waiters[0].waits.empty());
}

TEST(WaitGraph, AThousandThatDoTheSameAreTwoLines) {
  std::vector<ProcessSurvey> surveys = {driver()};
  for (std::uint64_t id = 1; id <= 99; ++id) {
    add_call(surveys[0], ActorId(0), id, id == 40 ? 9 : 1);
    surveys.push_back(device(id));
    surveys.back().actors[0].running.push_back({"run", process(100), 1, {}, true, false});
  }
  surveys[50].actors[0].running[0].method = "another";
  const std::string text = to_text(WaitGraph::of(surveys, {driver_name()}), std::nullopt);
  EXPECT_EQ(text,
            "driver of r (pid 7)\n"
            "  front[x=40]: 'run' for 9.0 s, no deadline\n"
            "    busy with 'run' for 1.0 s\n"
            "  and 97 more do the same: front[x=1] .. front[x=99]\n"
            "  front[x=50]: 'run' for 1.0 s, no deadline\n"
            "    busy with 'another' for 1.0 s\n"
            "no deadlock: all waits end at 99 actors that do not wait\n");
}

TEST(WaitGraph, AProcessThatDoesNotAnswerIsNamedWithTheReportsOfOthers) {
  ProcessSurvey silent;
  silent.process = process(1);
  silent.problem = "does not answer within 0.25 s";
  std::vector<ProcessSurvey> surveys = {driver(), silent};
  ProcessLabel name{
      ProcessId(1), "front[x=1]", "a device 0, pid 9", false, 0, "it is stopped (state T)"};
  // No process waits for device 1.
  EXPECT_THAT(to_text(WaitGraph::of(surveys, {driver_name(), name}), std::nullopt),
              HasSubstr("front[x=1] (a device 0, pid 9)\n  does not answer within 0.25 s: it is "
                        "stopped (state T)\n"));
  add_call(surveys[0], ActorId(0), 1);
  const WaitGraph graph = WaitGraph::of(surveys, {driver_name(), name});
  EXPECT_EQ(graph.waiters.size(), 2u);
  EXPECT_THAT(to_text(graph, std::nullopt),
              HasSubstr("no deadlock: all waits end at front[x=1], which does not wait"));
}

TEST(WaitGraph, AnEndingProcessWithoutWaitersIsNamed) {
  ProcessSurvey ends;
  ends.process = process(1);
  ends.ending = "ends, for 3.0 s so far: stopped by SIGTERM";
  ProcessLabel name{ProcessId(1), "front[x=1]", "a device 0, pid 9"};
  const WaitGraph graph = WaitGraph::of({driver(), ends}, {driver_name(), name});
  EXPECT_THAT(to_text(graph, std::nullopt),
              HasSubstr("front[x=1] (a device 0, pid 9)\n  ends, for 3.0 s so far: stopped by "
                        "SIGTERM\n"));
}

}  // namespace
}  // namespace weft::apps

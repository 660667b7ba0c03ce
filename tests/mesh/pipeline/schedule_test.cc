#include "mesh/pipeline/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

std::vector<StageEdge> chain(int stages) {
  std::vector<StageEdge> edges;
  for (int i = 0; i + 1 < stages; ++i) edges.push_back({i, i + 1});
  return edges;
}

std::string error_of(const Schedule& schedule, const std::vector<StageEdge>& edges) {
  try {
    validate(schedule, edges);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Schedule, EagerWarmsUpByTwiceTheDistanceToTheEnd) {
  EXPECT_EQ(to_string(make_schedule("eager-1f1b", 2, 4)),
            "actor 0: 0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3\n"
            "actor 1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3\n");
}

TEST(Schedule, OneForwardOneBackwardWarmsUpByTheDistanceToTheEnd) {
  EXPECT_EQ(to_string(make_schedule("1f1b", 3, 4)),
            "actor 0: 0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3\n"
            "actor 1: 1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3\n"
            "actor 2: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3\n");
}

TEST(Schedule, EveryNamedScheduleIsValidAtEverySize) {
  for (const std::string& name : schedule_names()) {
    for (int stages = 1; stages <= 6; ++stages) {
      for (int microbatches = 1; microbatches <= 9; ++microbatches) {
        EXPECT_NO_THROW(validate(make_schedule(name, stages, microbatches), chain(stages))) << name << stages << microbatches;
      }
    }
  }
}

TEST(Schedule, SkipEdgesAreAllowed) { EXPECT_NO_THROW(validate(make_schedule("1f1b", 3, 4), {{0, 1}, {1, 2}, {0, 2}})); }

TEST(Schedule, UnknownNameListsTheKnownOnes) {
  EXPECT_THROW(make_schedule("zigzag", 2, 2), Error);
  EXPECT_THROW(make_schedule("gpipe", 0, 2), Error);
}

TEST(Validate, MissingActionIsNamed) {
  Schedule schedule = make_schedule("1f1b", 2, 2);
  schedule.actors[1].pop_back();
  EXPECT_THAT(error_of(schedule, chain(2)), HasSubstr("stage 1, microbatch 1: needs either B"));
}

TEST(Validate, DuplicateActionIsNamed) {
  Schedule schedule = make_schedule("1f1b", 2, 2);
  schedule.actors[0].push_back({0, ActionKind::kForward, 1});
  EXPECT_THAT(error_of(schedule, chain(2)), HasSubstr("0F1 stands there twice"));
}

TEST(Validate, ActionOnAForeignActorIsNamed) {
  Schedule schedule = make_schedule("1f1b", 2, 2);
  schedule.actors[0][0].stage = 1;
  EXPECT_THAT(error_of(schedule, chain(2)), HasSubstr("1F0 belongs to actor 1"));
}

TEST(Validate, BackwardBeforeForwardIsADeadlockThatNamesBothActors) {
  Schedule schedule = make_schedule("gpipe", 2, 2);
  std::swap(schedule.actors[0][0], schedule.actors[0][2]);
  const std::string text = error_of(schedule, chain(2));
  EXPECT_THAT(text, HasSubstr("actor 0 is at 0B0, which waits for 0F0 of actor 0"));
  EXPECT_THAT(text, HasSubstr("actor 1 is at 1F0, which waits for 0F0 of actor 0"));
}

TEST(Validate, WeightGradientsOutOfOrderAreRefused) {
  Schedule schedule = make_schedule("gpipe", 1, 2);
  std::swap(schedule.actors[0][2], schedule.actors[0][3]);
  EXPECT_THAT(error_of(schedule, {}), HasSubstr("microbatch order"));
}

TEST(Validate, SplitBackwardIsAsGoodAsAWholeOne) {
  Schedule schedule = make_schedule("gpipe", 1, 1);
  schedule.actors[0] = {{0, ActionKind::kForward, 0}, {0, ActionKind::kInputGrad, 0}, {0, ActionKind::kWeightGrad, 0}};
  EXPECT_EQ(error_of(schedule, {}), "");
  std::swap(schedule.actors[0][1], schedule.actors[0][2]);
  EXPECT_THAT(error_of(schedule, {}), HasSubstr("waits for 0I0"));
}

}  // namespace
}  // namespace weft::mesh

#include "mesh/schedule/named_schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <tuple>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "mesh/schedule/late_reductions.h"
#include "mesh/schedule/schedule_text.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string rows(const Schedule& schedule) {
  return write_schedule(schedule, {}, ScheduleHeader::kNone);
}

std::string digest(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

TEST(NamedSchedules, EagerWarmsUpByTwiceTheDistanceToTheEnd) {
  EXPECT_EQ(rows(make_schedule("eager-1f1b", 2, 4)),
            "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n"
            "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
}

TEST(NamedSchedules, OneForwardOneBackwardWarmsUpByTheDistanceToTheEnd) {
  EXPECT_EQ(rows(make_schedule("1f1b", 3, 4)),
            "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n"
            "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n"
            "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n");
}

/// Returns an actor's order by chunks, counted from 1: forwards positive, backwards negative.
std::vector<int> signed_chunks(const Schedule& schedule, int actor) {
  std::vector<int> result;
  const int actors = schedule.actors.size();
  for (const Action& action : schedule.actors[actor]) {
    const int chunk = action.stage / actors + 1;
    result.push_back(action.kind == ActionKind::kForward ? chunk : -chunk);
  }
  return result;
}

TEST(NamedSchedules, InterleavedGroupsAsMegatronsWorkedExample) {
  const Schedule schedule = make_schedule({"interleaved-1f1b", 2, 5, 2, 3});
  EXPECT_THAT(signed_chunks(schedule, 0),
              ElementsAre(1, 1, 1, 2, 2, 2, -2, 1, -2, 1, -2, 2, -1, 2, -1, -1, -2, -2, -1, -1));
}

TEST(NamedSchedules, InterleavedNeverRunsABackwardOfAChunkBeforeItsForward) {
  for (const auto& [p, g] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 2}, {2, 4}, {4, 4}, {4, 5}, {8, 9}, {8, 11}}) {
    for (const int m : {8, 32}) {
      for (const int v : {1, 2, 4, 8}) {
        const Schedule schedule = make_schedule({"interleaved-1f1b", p, m, v, g});
        for (int actor = 0; actor < p; ++actor) {
          std::vector<int> open(v, 0);
          const std::vector<int> order = signed_chunks(schedule, actor);
          EXPECT_EQ(order.size(), static_cast<std::size_t>(2 * m * v));
          for (const int chunk : order) {
            int& count = open[std::abs(chunk) - 1];
            count += chunk > 0 ? 1 : -1;
            EXPECT_GE(count, 0);
          }
          EXPECT_THAT(open, testing::Each(0));
        }
      }
    }
  }
}

TEST(NamedSchedules, ZeroBubbleDelaysWeightGradientsByThePlaceOfTheActor) {
  EXPECT_EQ(rows(make_schedule("zb-h1", 3, 4)),
            "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n"
            "1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3\n"
            "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3\n");
}

TEST(NamedSchedules, InterleavedZeroBubbleOfTwoActorsIsPyTorchsGoldenOne) {
  // Rows of PyTorch's zb1p_2rank_2stagep_compute.csv, without blanks and in the current spelling,
  // compared by digest.
  const Schedule schedule = make_schedule({"zb-h1", 2, 8, 2, 0});
  EXPECT_THAT(rows(schedule), HasSubstr("0F0,0F1,2F0,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0"));
  EXPECT_THAT(rows(schedule), HasSubstr("1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1"));
  EXPECT_EQ(digest(rows(schedule)),
            "e23abc599807f59a5e1c8fea9db58245f2231e6fcd5c85dcdaffe0bea179c00c");
}

TEST(NamedSchedules, DualPipeVOfFourActorsIsPyTorchsGoldenOne) {
  // Rows of PyTorch's dualpipev_4rank_10mb.csv, compared by digest.
  const Schedule schedule = make_schedule("dualpipe-v", 8, 10);
  EXPECT_THAT(rows(schedule), HasSubstr("7F3,(0F7;7B3)OVERLAP_F_B,(7F4;0B0)OVERLAP_F_B"));
  EXPECT_THAT(rows(schedule), HasSubstr("4B7,3B7,4I8,3I8,4I9,3I9,4W8,3W8,4W9,3W9\n"));
  EXPECT_EQ(digest(rows(schedule)),
            "16ce4a29936e4c5ad774098add32489b4937942e3f5ab0108f17d2826b184529");
}

TEST(NamedSchedules, ZeroBubbleVFollowsItsRule) {
  EXPECT_EQ(rows(make_schedule("zb-v", 4, 4)),
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0F3,0I0,0W0,3F2,3I2,3W2,0I1,0W1,3F3,3I3,3W3,0I2,"
            "0W2,0I3,0W3\n"
            "1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1F3,1I1,1W1,2F3,2I2,2W2,1I2,2I3,1I3,"
            "1W2,2W3,1W3\n");
}

TEST(NamedSchedules, PlacementIsPartOfTheSchedule) {
  EXPECT_THAT(make_schedule({"interleaved-1f1b", 3, 3, 2, 0}).actor_of_stage,
              ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(make_schedule({"v-half", 3, 3, 0, 0}).actor_of_stage, ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_THAT(make_schedule({"zb-h2", 3, 3, 0, 0}).actor_of_stage, ElementsAre(0, 1, 2));
}

/// Sizes (stages per actor, microbatches, actors) of PyTorch's schedule tests, and small and odd
/// ones.
using Size = std::tuple<int, int, int>;
std::vector<Size> sizes() {
  std::vector<Size> result = {{2, 2, 2},  {2, 4, 2},   {2, 8, 2},   {2, 8, 4},    {2, 8, 8},
                              {4, 4, 4},  {4, 8, 4},   {4, 8, 8},   {4, 16, 4},   {4, 32, 4},
                              {4, 64, 4}, {4, 16, 16}, {4, 32, 32}, {4, 128, 64}, {3, 2, 2},
                              {3, 8, 2},  {3, 12, 4},  {4, 6, 3},   {4, 10, 5},   {2, 3, 4},
                              {2, 4, 4},  {2, 10, 4},  {2, 15, 4}};
  for (int actors = 1; actors <= 6; ++actors) {
    for (int microbatches = 1; microbatches <= 9; ++microbatches)
      result.push_back({2, microbatches, actors});
  }
  return result;
}

TEST(NamedSchedules, EveryOneIsValidAtEverySize) {
  for (const NamedSchedule& named : named_schedules()) {
    for (const auto& [v, m, p] : sizes()) {
      const Schedule schedule =
          make_schedule({std::string(named.name), p, m, named.any_chunks ? v : 0, 0});
      EXPECT_NO_THROW(validate(schedule, chain_edges(schedule.stages)))
          << named.name << " v=" << v << " m=" << m << " p=" << p;
    }
  }
}

TEST(NamedSchedules, UnknownNameSaysTheNearest) {
  EXPECT_THAT([&] { make_schedule("zb-h", 2, 2); },
              test::throws_error(ErrorCode::kInvalidArgument, "did you mean 'zb-h1'?",
                                 "gpipe, 1f1b, eager-1f1b, interleaved-1f1b"));
}

TEST(NamedSchedules, ImpossibleCountsAreRefused) {
  const auto refused = [](const ScheduleRequest& request) {
    return test::error_message(ErrorCode::kInvalidArgument, [&] { make_schedule(request); });
  };
  EXPECT_EQ(refused({"gpipe", 0, 2}),
            "a schedule needs at least 1 actor and 1 microbatch, got 0 and 2");
  EXPECT_EQ(refused({"gpipe", 2, 0}),
            "a schedule needs at least 1 actor and 1 microbatch, got 2 and 0");
  const std::string negative =
      "stages per actor and microbatches per group are at least 1, or 0 for the default, got ";
  EXPECT_EQ(refused({"interleaved-1f1b", 2, 2, -1, 0}), negative + "-1 and 0");
  EXPECT_EQ(refused({"interleaved-1f1b", 2, 2, 0, -3}), negative + "0 and -3");
  EXPECT_THAT([&] { make_schedule("zb-v", 3, 2); },
              test::throws_error(ErrorCode::kInvalidArgument, "so 3 stages cannot be divided"));
  EXPECT_THAT(
      [&] {
        make_schedule({"1f1b", 2, 2, 2, 0});
      },
      test::throws_error(ErrorCode::kInvalidArgument,
                         "schedule '1f1b' puts 1 stage on each actor, not 2"));
  EXPECT_THAT(
      [&] {
        make_schedule({"zb-v", 2, 2, 3, 0});
      },
      test::throws_error(ErrorCode::kInvalidArgument,
                         "schedule 'zb-v' puts 2 stages on each actor, not 3"));
}

TEST(NamedSchedules, ForwardScheduleHasOnlyForwards) {
  EXPECT_EQ(rows(make_forward_schedule(2, 3)), "0F0,0F1,0F2\n1F0,1F1,1F2\n");
}

TEST(LateReductions, StandBehindAllOtherActionsButTheUpdates) {
  Schedule schedule = make_schedule("interleaved-1f1b", 4, 4);
  for (auto& actions : schedule.actors)
    actions.push_back({actions.front().stage, ActionKind::kOptimizer, kNoMicrobatch});
  const Schedule late = with_late_reductions(schedule);
  for (std::size_t actor = 0; actor < late.actors.size(); ++actor) {
    std::vector<std::string> added;
    for (auto at = late.actors[actor].begin() + std::ssize(schedule.actors[actor]) - 1;
         at != late.actors[actor].end(); ++at)
      added.push_back(to_string(*at));
    const std::string first = std::to_string(actor), second = std::to_string(actor + 2);
    EXPECT_EQ(added, (std::vector{first + "REDUCE_GRAD", second + "REDUCE_GRAD", first + "OPT"}));
  }
  EXPECT_EQ(with_late_reductions(late), late);
}

}  // namespace
}  // namespace weft::mesh

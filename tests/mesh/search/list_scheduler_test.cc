#include "mesh/search/internal/list_scheduler.h"

#include <gtest/gtest.h>

namespace weft::mesh {
namespace {

TEST(ListScheduler, FollowsAPatternOfManyStagesOnOneActor) {
  constexpr int kStages = 16, kMicrobatches = 2;
  SearchRequest request;
  request.actor_of_stage.assign(kStages, 0);
  request.microbatches = kMicrobatches;
  request.costs = uniform_costs(kStages, {}, 0);
  PeriodicPattern pattern{3 * kStages, {}};
  for (int s = 0; s < kStages; ++s)
    pattern.starts.push_back({1.0 * s, 2.0 * kStages - 1 - s, 2.0 * kStages + s});
  ListPolicy policy = pattern_policy(request, pattern, 0, ListPolicy::Weights::kImmediately);
  EXPECT_EQ(policy.in_flight, std::vector<int>(kStages, 1));
  policy.in_flight.assign(kStages, kMicrobatches);
  const auto schedule = list_schedule(request, policy);
  ASSERT_TRUE(schedule);
  std::vector<Action> expected;
  for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
    for (int s = 0; s < kStages; ++s) expected.push_back({s, ActionKind::kForward, microbatch});
    for (int s = kStages; s-- > 0;) expected.push_back({s, ActionKind::kInputGrad, microbatch});
    for (int s = 0; s < kStages; ++s) expected.push_back({s, ActionKind::kWeightGrad, microbatch});
  }
  EXPECT_EQ(schedule->actors.at(0), expected);
}

}  // namespace
}  // namespace weft::mesh

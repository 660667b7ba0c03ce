#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "mesh/schedule/schedule.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

/// Lists an actor's single stage: forward, an idle slot, then the backward of each microbatch.
std::vector<std::optional<Action>> one_at_a_time(int actor, int microbatches) {
  std::vector<std::optional<Action>> tasks;
  for (int i = 0; i < microbatches; ++i) {
    tasks.push_back(Action{actor, ActionKind::kForward, i});
    tasks.push_back(std::nullopt);
    tasks.push_back(Action{actor, ActionKind::kBackward, i});
  }
  return tasks;
}

TEST(TaskSchedule, HasTheTasksOfTheFunction) {
  const Schedule schedule = make_task_schedule("one at a time", {0, 1}, 2, one_at_a_time);
  EXPECT_EQ(to_string(schedule), "actor 0: 0F0 0B0 0F1 0B1\nactor 1: 1F0 1B0 1F1 1B1\n");
  EXPECT_EQ(schedule.name, "one at a time");
}

TEST(TaskSchedule, IsCheckedAtOnce) {
  const auto lazy = [](int actor, int microbatches) {
    auto tasks = one_at_a_time(actor, microbatches);
    if (actor == 1) tasks.pop_back();
    return tasks;
  };
  EXPECT_THAT(
      [&] {
        make_task_schedule("lazy", {0, 1}, 2, lazy);
      },
      test::throws_error(ErrorCode::kInvalidArgument,
                         "schedule 'lazy', stage 1, microbatch 1: needs either B"));
  EXPECT_THAT(
      [&] { make_task_schedule("none", {}, 2, one_at_a_time); },
      test::throws_error(ErrorCode::kInvalidArgument, "schedule 'none' needs at least 1 stage"));
  EXPECT_THAT([&] { make_task_schedule("none", {0}, 0, one_at_a_time); },
              test::throws_error(ErrorCode::kInvalidArgument, "and 1 microbatch"));
}

}  // namespace
}  // namespace weft::mesh

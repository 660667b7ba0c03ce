#include "apps/bench/sharding/sharding_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh/schedule/late_reductions.h"
#include "mesh/schedule/named_schedules.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

mesh::TrainingPlan plan_of(const ShardingCase& c) {
  const ShardingModel model = make_sharding_model(c, 200'000'000);
  return mesh::make_training_plan(model.layout, model.graphs,
                                  mesh::predict_places(model.layout, model.hosts),
                                  model.conditions);
}

/// Returns the bytes that one layer receives.
double layer_bytes(ShardingCase c) {
  c.layers = 1;
  const double one = received_bytes(plan_of(c));
  c.layers = 3;
  return (received_bytes(plan_of(c)) - one) / 2;
}

TEST(ShardingCase, ALayerReceivesWhatTheLawSays) {
  const double h2 = 4.0 * 512 * 512;
  for (const double m : {0.5, 2.0}) {
    SCOPED_TRACE(m);
    const double flat = layer_bytes({"1d", 8, m, 512});
    const double cube = layer_bytes({"3d", 8, m, 512});
    EXPECT_DOUBLE_EQ(flat, 7 * m * h2);
    // Statistics and vectors add less than 2 %.
    EXPECT_GE(cube, (4 * m + 3) * h2);
    EXPECT_LE(cube, 1.02 * (4 * m + 3) * h2);
    EXPECT_NEAR(flat / cube, closed_form_speedup_3d(2, m), 0.02 * closed_form_speedup_3d(2, m));
  }
}

TEST(ShardingCase, LawsAreThoseOfTheTable) {
  EXPECT_DOUBLE_EQ(closed_form_speedup_3d(2, 1), 1.0);
  EXPECT_NEAR(closed_form_speedup_3d(2, 8), 1.6, 1e-12);
  EXPECT_NEAR(closed_form_speedup_3d(3, 1), 13.0 / 7, 1e-12);
  EXPECT_NEAR(closed_form_speedup_3d(4, 1), 3.0, 1e-12);
}

TEST(ShardingCase, DevicesThatTakeNoTimeLeaveTheLinks) {
  const mesh::TrainingPlan plan = plan_of({"3d", 8, 1, 256, 2});
  const double none = forecast_seconds(plan, 0);
  EXPECT_GE(none, received_bytes(plan) / 25e6);
  EXPECT_GT(forecast_seconds(plan, 1e9), none);
}

struct IdealGain {
  const char* layout;
  double communication_by_computing, gain;
};

// Baseline: all reductions after the last backward. Ideal: lists of steps on two lanes, computing
// and network, in which each reduction starts when its last term exists.
TEST(ShardingCase, ReductionsOfGradientsHideBehindTheBackward) {
  for (const IdealGain& ideal : {IdealGain{"data", 0.2, 1.18},
                                 {"data", 0.5, 1.44},
                                 {"data", 1, 1.45},
                                 {"fsdp", 0.2, 1.09},
                                 {"fsdp", 0.5, 1.21},
                                 {"fsdp", 1, 1.36},
                                 {"fsdp", 2, 1.30}}) {
    SCOPED_TRACE(testing::Message()
                 << ideal.layout << ", ratio " << ideal.communication_by_computing);
    const ShardingModel model = make_sharding_model({ideal.layout, 8, 4, 128, 4}, 200'000'000);
    const auto plan_with = [&](const mesh::ParallelConfig& layout) {
      return mesh::make_training_plan(layout, model.graphs,
                                      mesh::predict_places(layout, model.hosts), model.conditions);
    };
    mesh::ParallelConfig layout = model.layout;
    const mesh::TrainingPlan early = plan_with(layout);
    layout.own_schedule = mesh::with_late_reductions(mesh::make_schedule("1f1b", 1, 1));
    const mesh::TrainingPlan late = plan_with(layout);
    const double speed =
        most_flops(early) * ideal.communication_by_computing / forecast_seconds(early, 0);
    EXPECT_GE(forecast_seconds(late, speed) / forecast_seconds(early, speed), 0.95 * ideal.gain);
    EXPECT_DOUBLE_EQ(received_bytes(late), received_bytes(early));
  }
}

TEST(ShardingCase, RefusesImpossibleCases) {
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument,
                                  [] {
                                    make_sharding_model({"3d", 9, 1, 512}, 0);
                                  }),
              HasSubstr("layout 3d takes q^3 devices, such as 8, 27 or 64, not 9"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument,
                                  [] {
                                    make_sharding_model({"1d", 8, 0.01, 512}, 0);
                                  }),
              HasSubstr("take another M/H or width"));
}

}  // namespace
}  // namespace weft::apps

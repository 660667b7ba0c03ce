#include "apps/bench/sharding/sharding_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh/costs/plan_costs.h"
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

/// Plans of a case with computing such that communication alone takes `ratio` of its time: actions
/// in the order of the graph, and as lists.
struct OrderedPlans {
  /// `known_speed`: FLOP/s of a device; 0: by the ratio.
  OrderedPlans(const ShardingCase& c, double ratio, double known_speed = 0) {
    ShardingModel model = make_sharding_model(c, 200'000'000);
    const auto plan = [&] {
      return mesh::make_training_plan(model.layout, model.graphs,
                                      mesh::predict_places(model.layout, model.hosts),
                                      model.conditions);
    };
    model.conditions.orders_steps = false;
    graph = plan();
    speed = known_speed > 0 ? known_speed : most_flops(graph) * ratio / forecast_seconds(graph, 0);
    model.conditions.orders_steps = true;
    model.conditions.flops_per_second = speed;
    lists = plan();
  }
  double gain() const { return forecast_seconds(graph, speed) / forecast_seconds(lists, speed); }

  double speed = 0;  ///< FLOP/s of a device.
  mesh::TrainingPlan graph, lists;
};

constexpr double kRatios[] = {0.5, 1, 2};

const ShardingCase kCases[] = {
    {"1d", 8, 4, 128, 4},         {"1d-sequence", 8, 4, 128, 4}, {"2d", 4, 4, 128, 4},
    {"3d", 8, 4, 128, 4},         {"3d", 8, 4, 128, 4, 0, 3},    {"fsdp", 8, 4, 128, 4},
    {"fsdp", 8, 4, 128, 4, 0, 4}, {"data", 8, 4, 128, 4},        {"data", 8, 4, 128, 4, 0, 4},
};

TEST(ShardingCase, ListsMakeNoStepSlowerAndTakeNoMemory) {
  for (const ShardingCase& c : kCases) {
    for (const double ratio : kRatios) {
      SCOPED_TRACE(testing::Message()
                   << c.layout << ", " << c.microbatches << " microbatches, ratio " << ratio);
      const OrderedPlans plans(c, ratio);
      // Narrow models have short collectives, of which lists know less. 2d at ratio 1 takes 1.002.
      EXPECT_GE(plans.gain(), 0.995);
      EXPECT_DOUBLE_EQ(received_bytes(plans.lists), received_bytes(plans.graph));
      for (std::size_t i = 0; i < plans.lists.train.programs.size(); ++i)
        EXPECT_LE(static_cast<double>(plans.lists.train.programs[i].arena_bytes),
                  1.05 * static_cast<double>(plans.graph.train.programs[i].arena_bytes));
    }
  }
}

// Ideal: the best of the orders that a list on two lanes finds for one microbatch.
TEST(ShardingCase, WeightGradientsFillTheWaitsForSumsOf1d) {
  for (const auto& [ratio, ideal] : {std::pair(0.5, 1.03), {1.0, 1.08}, {2.0, 1.05}})
    EXPECT_GE(OrderedPlans({"1d", 8, 4, 128, 4}, ratio).gain(), 0.98 * ideal) << ratio;
}

TEST(ShardingCase, CostsForecastThePlayedStep) {
  for (const ShardingCase& c : kCases) {
    for (const double ratio : kRatios) {
      const OrderedPlans plans(c, ratio);
      const mesh::TrainingPlan& plan = plans.lists;
      const double step =
          mesh::simulate(plan.schedule,
                         mesh::plan_costs(plan, mesh::cost_model_seconds(plans.speed)),
                         mesh::simulation_options_of(plan))
              .step_time;
      const double played = forecast_seconds(plan, plans.speed);
      EXPECT_NEAR(step, played, 0.05 * played)
          << c.layout << ", " << c.microbatches << " microbatches, ratio " << ratio;
    }
  }
}

/// Cuts a case into two stages, each on a mesh of half the devices. Devices are of `speed` FLOP/s.
mesh::TrainingPlan two_stages(const ShardingCase& c, const std::string& schedule, double speed) {
  ShardingModel model = make_sharding_model(c, 200'000'000);
  mesh::ParallelConfig& layout = model.layout;
  mesh::MeshConfig back = layout.meshes.front();
  const std::size_t half = back.hosts.size() / 2;
  layout.meshes.front().hosts.resize(half);
  back.hosts.erase(back.hosts.begin(), back.hosts.begin() + static_cast<std::ptrdiff_t>(half));
  back.name = "mesh1";
  layout.meshes.push_back(back);
  for (mesh::MeshConfig& one : layout.meshes) one.axes.front().size = static_cast<int>(half);
  const int layers = layout.stages.front().layers;
  layout.stages = {{0, layers / 2}, {1, layers - layers / 2}};
  layout.schedule = schedule;
  model.conditions.flops_per_second = speed;
  return mesh::make_training_plan(layout, model.graphs, mesh::predict_places(layout, model.hosts),
                                  model.conditions);
}

TEST(ShardingCase, CostsForecastPipelinesOfSplitStages) {
  for (const auto& [name, duplex] : {std::pair("1d", mesh::Duplex::kOff),
                                     {"1d", mesh::Duplex::kHalves},
                                     {"1d-sequence", mesh::Duplex::kOff},
                                     {"1d-sequence", mesh::Duplex::kHalves},
                                     {"fsdp", mesh::Duplex::kOff}}) {
    for (const std::string schedule : {"1f1b", "zb-h1"}) {
      const ShardingCase c{name, 8, 4, 128, 4, 0, 6, duplex};
      const mesh::TrainingPlan idle = two_stages(c, schedule, 0);
      for (const double ratio : kRatios) {
        const double speed = most_flops(idle) * ratio / forecast_seconds(idle, 0);
        const mesh::TrainingPlan plan = two_stages(c, schedule, speed);
        const double step =
            mesh::simulate(plan.schedule, mesh::plan_costs(plan, mesh::cost_model_seconds(speed)),
                           mesh::simulation_options_of(plan))
                .step_time;
        const double played = forecast_seconds(plan, speed);
        EXPECT_NEAR(step, played, 0.07 * played)
            << name << ", " << to_string(duplex) << ", " << schedule << ", ratio " << ratio;
      }
    }
  }
}

/// Gain of interleaved actions over the order of the graph, if lists of two microbatches' steps are
/// as short as list scheduling makes them on two lanes.
struct DuplexGain {
  ShardingCase c;
  double ratio, gain;
};

TEST(ShardingCase, InterleavedActionsHideCommunication) {
  const ShardingCase line{"1d", 4, 4, 512, 4, 0, 1, mesh::Duplex::kHalves},
      crossed_line{"1d", 8, 4, 512, 4, 0, 6, mesh::Duplex::kCross},
      sequence{"1d-sequence", 8, 4, 512, 4, 0, 1, mesh::Duplex::kHalves},
      cube{"3d", 8, 4, 512, 4, 0, 1, mesh::Duplex::kHalves},
      square{"2d", 4, 4, 512, 4, 0, 1, mesh::Duplex::kHalves},
      sharded{"fsdp", 8, 4, 512, 4, 0, 4, mesh::Duplex::kCross};
  for (const auto& [c, ratio, gain] : {DuplexGain{line, 0.5, 1.27},
                                       {line, 1, 1.52},
                                       {line, 1.33, 1.57},
                                       {line, 2, 1.40},
                                       {crossed_line, 1, 1.53},
                                       {crossed_line, 2, 1.33},
                                       {sequence, 0.5, 1.26},
                                       {sequence, 1, 1.39},
                                       {sequence, 2, 1.37},
                                       {cube, 0.5, 1.20},
                                       {cube, 1, 1.37},
                                       {cube, 2, 1.27},
                                       {square, 0.5, 1.17},
                                       {square, 1, 1.26},
                                       {square, 2, 1.15},
                                       {sharded, 0.5, 1.11},
                                       {sharded, 1, 1.25},
                                       {sharded, 2, 1.17}}) {
    SCOPED_TRACE(testing::Message() << c.layout << ", " << to_string(c.duplex) << ", " << ratio);
    ShardingCase off = c;
    off.duplex = mesh::Duplex::kOff;
    const OrderedPlans plain(off, ratio), pairs(c, ratio, plain.speed);
    const double step = forecast_seconds(pairs.lists, plain.speed);
    EXPECT_GE(forecast_seconds(plain.graph, plain.speed) / step, 0.95 * gain);
    EXPECT_GE(forecast_seconds(plain.lists, plain.speed), step);
    const double expected =
        mesh::simulate(pairs.lists.schedule,
                       mesh::plan_costs(pairs.lists, mesh::cost_model_seconds(plain.speed)),
                       mesh::simulation_options_of(pairs.lists))
            .step_time;
    EXPECT_NEAR(expected, step, 0.05 * step);
    // Halves hold as many rows as a whole microbatch.
    if (c.duplex != mesh::Duplex::kHalves) continue;
    for (std::size_t i = 0; i < pairs.lists.train.programs.size(); ++i)
      EXPECT_LE(static_cast<double>(pairs.lists.train.programs[i].arena_bytes),
                1.05 * static_cast<double>(plain.lists.train.programs[i].arena_bytes));
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

// Tests that the compiled programs end when simulate() predicts for their schedule.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "core/base/error.h"
#include "mesh/costs/plan_costs.h"
#include "mesh/costs/program_seconds.h"
#include "mesh/schedule/late_reductions.h"
#include "mesh/schedule/named_schedules.h"
#include "tests/mesh/costs/emulated_models.h"
#include "tests/support/thrown_error.h"

namespace weft::test {
namespace {

struct Layout {
  mesh::ParallelConfig config;
  mesh::ModelGraphs model;
  double link = 0;  ///< Bytes per second of each host.
  std::string text;
};

/// Makes a layout and a model of random blocks and skips, split into the schedule's stages.
Layout random_layout(const mesh::NamedSchedule& schedule, std::mt19937& random) {
  const auto number = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const auto seconds = [&] { return std::uniform_real_distribution<double>(0.1, 2)(random); };
  const int meshes = number(2, 4), microbatches = 2 * meshes + number(0, 2);
  std::vector<int> sizes;
  for (int m = 0; m < meshes; ++m) sizes.push_back(number(1, 4) == 1 ? 2 : 1);
  std::vector<std::pair<int, int>> stages;
  std::vector<BlockSeconds> blocks;
  for (const int mesh : mesh::place_stages(schedule.placement, meshes, schedule.chunks)) {
    stages.emplace_back(mesh, number(1, 3));
    for (int i = 0; i < stages.back().second; ++i)
      blocks.push_back({seconds(), seconds(), seconds()});
  }
  std::vector<Skip> skips;
  const int last = std::ssize(blocks) - 1;
  for (int from = 0; from < last; ++from) {
    if (number(0, 2) > 0) continue;
    Skip skip{from, number(from + 1, last), number(1, 9), number(0, 1) * seconds()};
    if (skip.to < last && number(0, 1) == 0) skip.also_to = number(skip.to + 1, last);
    skips.push_back(skip);
  }
  const FirstInput first = number(0, 2) == 0 ? FirstInput::kData : FirstInput::kTable;
  const double link = number(20, 400);
  Layout layout{emulated_layout(sizes, stages, std::string(schedule.name), microbatches),
                emulated_model(blocks, skips, first), link, ""};
  layout.config.credits = number(1, 4);
  layout.config.resharding = transfer::ReshardAlgorithm::kSendRecv;
  for (mesh::StageConfig& stage : layout.config.stages) stage.recompute = number(0, 3) == 0;
  layout.text =
      fmt::format("{} on {} meshes, {} stages, {} blocks{}, {} skips, {} microbatches, {} credits",
                  schedule.name, meshes, stages.size(), blocks.size(),
                  first == FirstInput::kData ? " without a table" : "", skips.size(), microbatches,
                  layout.config.credits);
  return layout;
}

/// Returns the stage whose gradients a transfer reduces.
int reduced_stage(const mesh::Transfer& transfer) {
  const std::string before = " of stage ";
  return std::stoi(transfer.name.substr(transfer.name.find(before) + before.size()));
}

/// Returns the duration of one of a device's transfers by the cost model. The buckets of a stage
/// take shares of its reduction's time.
double seconds_of(const mesh::TrainingPlan& plan, const mesh::ScheduleCosts& costs,
                  const mesh::Transfer& transfer, const mesh::Program& program) {
  if (transfer.kind == mesh::TransferPurpose::kReshard)
    return plan.train.edges[transfer.op].plan.predicted_seconds;
  if (transfer.kind == mesh::TransferPurpose::kNorm) return costs.exchange;
  const int stage = reduced_stage(transfer);
  double bytes = 0;
  for (const mesh::Transfer& other : program.transfers)
    if (other.kind == mesh::TransferPurpose::kAllReduce && reduced_stage(other) == stage)
      bytes += static_cast<double>(other.source_bytes());
  return costs.stages[stage].reduce_grad * static_cast<double>(transfer.source_bytes()) / bytes;
}

/// Returns traffic as mesh/schedule simulates it: all participants move a transfer together.
/// Transfers of one edge, and gradient reductions of one mesh, follow each other.
mesh::Traffic as_the_simulator_sees_it(const mesh::TrainingPlan& plan,
                                       const mesh::ScheduleCosts& costs) {
  mesh::Traffic traffic;
  std::map<mesh::MeshId, std::uint32_t> link_of_mesh;
  const auto add_link = [&] {
    traffic.link_rates.push_back(1);
    traffic.queue_places.push_back(1);
    return static_cast<std::uint32_t>(traffic.link_rates.size() - 1);
  };
  for (const mesh::Program& program : plan.train.programs) {
    const mesh::MeshId mesh(std::ranges::find_if(plan.partition.meshes,
                                                 [&](const mesh::DeviceMesh& one) {
                                                   return one.rank_of(program.device).has_value();
                                                 }) -
                            plan.partition.meshes.begin());
    for (const mesh::Transfer& transfer : program.transfers) {
      auto& movements = traffic.movements[transfer.op];
      if (movements.empty()) {
        const bool reduces = transfer.kind == mesh::TransferPurpose::kAllReduce;
        if (reduces && !link_of_mesh.contains(mesh)) link_of_mesh[mesh] = add_link();
        const std::uint32_t link = reduces ? link_of_mesh[mesh] : add_link();
        mesh::Traffic::FlowMovement& added = movements.emplace_back();
        added.crossings = {{link, 1}};
        added.queue = {link, program.device};
      }
      movements.front().devices.push_back(program.device);
      movements.front().bytes = seconds_of(plan, costs, transfer, program);
    }
  }
  return traffic;
}

/// Adds a gradient reduction to each stage: right after its last weight gradient, or at the end.
mesh::Schedule with_reductions(mesh::Schedule schedule, std::mt19937& random) {
  for (std::vector<mesh::Action>& actions : schedule.actors) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const mesh::Action action = actions[i];
      if (!mesh::gives_weight_grad(action.kind) || action.microbatch + 1 < schedule.microbatches ||
          random() % 2 == 0)
        continue;
      actions.insert(actions.begin() + i + 1,
                     {action.stage, mesh::ActionKind::kReduceGrad, mesh::kNoMicrobatch});
    }
  }
  return mesh::with_late_reductions(std::move(schedule));
}

mesh::ProgramSimulation play(const mesh::TrainingPlan& plan, const mesh::Traffic& traffic) {
  return mesh::simulate_programs(plan.train.programs,
                                 mesh::program_seconds(plan, mesh::cost_model_seconds(0)), traffic);
}

mesh::Schedule schedule_of(const mesh::NamedSchedule& named, const mesh::ParallelConfig& layout) {
  return mesh::make_schedule({std::string(named.name), static_cast<int>(layout.meshes.size()),
                              layout.microbatches, named.chunks, 0});
}

/// Returns the time at which the last F, B, I or W ends.
double end_of_computing(const mesh::ScheduleSimulation& simulation) {
  double end = 0;
  for (const mesh::SimulatedActor& actor : simulation.actors) {
    for (const mesh::SimulatedAction& one : actor.actions) {
      if (mesh::has_microbatch(one.action.kind)) end = std::max(end, one.end);
    }
  }
  return end;
}

TEST(PlayedPrograms, EndWhenTheSimulatorSays) {
  const std::uint32_t seed = 20261121;
  std::mt19937 random(seed);
  for (const mesh::NamedSchedule& named : mesh::named_schedules()) {
    for (int round = 0; round < 12; ++round) {
      Layout layout = random_layout(named, random);
      const mesh::Schedule schedule = with_reductions(schedule_of(named, layout.config), random);
      layout.config.own_schedule = schedule;
      layout.config.duplex =
          mesh::has_compounds(schedule) ? mesh::Duplex::kCross : mesh::Duplex::kOff;
      for (const mesh::Lowering lowering : {mesh::Lowering::kLanes, mesh::Lowering::kSafe}) {
        layout.config.lowering = lowering;
        const mesh::TrainingPlan plan = emulated_plan(layout.config, layout.model, layout.link);
        mesh::ScheduleCosts costs = mesh::plan_costs(plan, mesh::cost_model_seconds(0));
        costs.nic_of_actor.clear();
        const mesh::ProgramSimulation played = play(plan, as_the_simulator_sees_it(plan, costs));
        const mesh::ScheduleSimulation simulation =
            mesh::simulate(schedule, costs, mesh::simulation_options_of(plan));
        const double last = *std::ranges::max_element(played.last_run);
        const std::string text =
            fmt::format("{}{}, seed {}, round {}", layout.text,
                        lowering == mesh::Lowering::kSafe ? ", safe" : "", seed, round);
        EXPECT_NEAR(end_of_computing(simulation), last, 1e-9 * last) << text;
        EXPECT_NEAR(simulation.step_time, played.step, 1e-9 * played.step) << text;
      }
    }
  }
}

// The simulator does not know the layers' own times: it takes equal parts of the reduction.
TEST(PlayedPrograms, EndAboutWhenTheSimulatorSaysIfReductionsStartByThemselves) {
  const int layers = 8;
  for (const int microbatches : {1, 4}) {
    for (const double link : {20, 60, 200}) {
      const mesh::ParallelConfig layout = emulated_layout({2}, {{0, layers}}, "1f1b", microbatches);
      const mesh::TrainingPlan plan =
          emulated_plan(layout, emulated_model(std::vector<BlockSeconds>(layers, {1, 1, 1})), link);
      mesh::ScheduleCosts costs = mesh::plan_costs(plan, mesh::cost_model_seconds(0));
      costs.nic_of_actor.clear();
      const double step = mesh::simulate(mesh::make_schedule({"1f1b", 1, microbatches, 1, 0}),
                                         costs, mesh::simulation_options_of(plan))
                              .step_time;
      EXPECT_NEAR(play(plan, as_the_simulator_sees_it(plan, costs)).step, step, 0.05 * step)
          << microbatches << " microbatches, link " << link;
    }
  }
}

/// Plans two data-parallel meshes of two devices, each mesh on one host.
mesh::TrainingPlan two_replicas(mesh::Lowering lowering) {
  mesh::ParallelConfig layout = emulated_layout({2, 2}, {{0, 2}, {1, 2}}, "1f1b", 16);
  // A transfer of both replicas together takes one second.
  const mesh::PlanConditions conditions{
      .links = {{"left", kRows * kWidth * 4.0}, {"right", kRows * kWidth * 4.0}}};
  layout.lowering = lowering;
  return mesh::make_training_plan(
      layout, emulated_model({{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}),
      {{{"left", 0}, {"left", 1}}, {{"right", 0}, {"right", 1}}}, conditions);
}

TEST(PlayedPrograms, ReplicasDriftApartAndHideTheirTransfersBehindEachOther) {
  const mesh::TrainingPlan plan = two_replicas(mesh::Lowering::kSafe);
  const mesh::InstructionSeconds seconds = mesh::program_seconds(plan, mesh::cost_model_seconds(0));
  const double as_one = mesh::simulate(mesh::make_schedule({"1f1b", 2, 16, 1, 0}),
                                       mesh::plan_costs(plan, mesh::cost_model_seconds(0)),
                                       mesh::simulation_options_of(plan))
                            .step_time;
  // Equal weights keep the replicas together. Each always waits for both replicas' transfers.
  mesh::Traffic traffic = mesh::traffic_of(plan.train.programs, plan.topology, plan.network);
  for (auto& [op, movements] : traffic.movements) {
    for (mesh::Traffic::FlowMovement& movement : movements) movement.weight = 1;
  }
  EXPECT_NEAR(play(plan, traffic).step, as_one, 0.01 * as_one);
  // At twice the rate, replicas do not slow each other's transfers.
  for (double& rate : traffic.link_rates) rate *= 2;
  const double alone = play(plan, traffic).step;
  EXPECT_LT(alone, 0.9 * as_one);
  const double step = mesh::simulate_step(plan, seconds).step;
  EXPECT_LT(step, as_one - 0.5 * (as_one - alone));
  EXPECT_GT(step, alone);
}

/// Sums the durations of all actions of one stage and kind on one device.
double action_seconds(const mesh::Program& program, const std::vector<double>& seconds, int stage,
                      mesh::ActionKind kind) {
  double sum = 0;
  bool within = false;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (const auto* begin = std::get_if<mesh::BeginAction>(&program.instructions[i])) {
      within = begin->stage == stage && begin->kind == kind;
    }
    if (within) sum += seconds[i];
  }
  return sum;
}

TEST(ProgramSeconds, AreThoseThatWereMeasured) {
  for (const std::string schedule : {"1f1b", "zb-h1"}) {
    mesh::ParallelConfig layout = emulated_layout({2, 1}, {{0, 2}, {1, 2}}, schedule, 4);
    layout.stages[1].recompute = true;
    const mesh::TrainingPlan plan =
        emulated_plan(layout, emulated_model({{1, 2, 3}, {2, 3, 4}, {3, 4, 5}, {4, 5, 6}}));
    // The I of stage 1 begins with a recomputation of 7 seconds.
    const mesh::MeasuredStageTimes measured[] = {{30, 50, 70}, {7, 18, 9}};
    const mesh::InstructionSeconds seconds =
        mesh::program_seconds(plan, mesh::cost_model_seconds(0), measured);
    const auto of = [&](std::size_t device, int stage, mesh::ActionKind kind) {
      return action_seconds(plan.train.programs[device], seconds[device], stage, kind);
    };
    const bool split = schedule == "zb-h1";
    for (const std::size_t device : {0, 1}) {
      EXPECT_NEAR(of(device, 0, mesh::ActionKind::kForward), 4 * 30, 1e-9);
      EXPECT_NEAR(of(device, 0, split ? mesh::ActionKind::kInputGrad : mesh::ActionKind::kBackward),
                  4 * (split ? 50 : 120), 1e-9);
      EXPECT_NEAR(of(device, 0, mesh::ActionKind::kWeightGrad), split ? 4 * 70 : 0, 1e-9);
    }
    EXPECT_NEAR(of(2, 1, mesh::ActionKind::kForward), 4 * 7, 1e-9);
    EXPECT_NEAR(of(2, 1, split ? mesh::ActionKind::kInputGrad : mesh::ActionKind::kBackward),
                4 * (split ? 18 : 27), 1e-9);
    EXPECT_THAT(
        [&] {
          mesh::program_seconds(plan, mesh::cost_model_seconds(0), std::span(measured).first(1));
        },
        throws_error(ErrorCode::kInvalidArgument, "1 stages were measured, but there are"));
  }
}

}  // namespace
}  // namespace weft::test

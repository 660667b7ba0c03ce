// The simulator against the programs themselves: what simulate() says of a schedule is when the compiled programs are done.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "mesh/schedules/named_schedules.h"
#include "mesh/stage_costs/plan_costs.h"
#include "tests/mesh/stage_costs/emulated_models.h"
#include "tests/mesh/stage_costs/program_player.h"

namespace weft::test {
namespace {

struct Layout {
  mesh::LayoutConfig config;
  mesh::ModelGraphs model;
  std::string text;
};

/// A model of random blocks and skips, cut into the stages that the schedule has on so many meshes.
Layout random_layout(const mesh::NamedSchedule& schedule, std::mt19937& random) {
  const auto number = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const auto seconds = [&] { return std::uniform_real_distribution<double>(0.1, 2)(random); };
  const int meshes = number(2, 4), microbatches = 2 * meshes + number(0, 2);
  std::vector<int> sizes;
  for (int m = 0; m < meshes; ++m) sizes.push_back(number(1, 4) == 1 ? 2 : 1);
  std::vector<std::pair<int, int>> stages;
  std::vector<BlockSeconds> blocks;
  for (const int mesh : mesh::place_stages(schedule.placement, meshes, schedule.chunks)) {
    stages.emplace_back(mesh, number(1, 3));
    for (int i = 0; i < stages.back().second; ++i) blocks.push_back({seconds(), seconds(), seconds()});
  }
  std::vector<Skip> skips;
  const int last = static_cast<int>(blocks.size()) - 1;
  for (int from = 0; from < last; ++from) {
    if (number(0, 2) > 0) continue;
    Skip skip{from, number(from + 1, last), number(1, 9), number(0, 1) * seconds()};
    if (skip.to < last && number(0, 1) == 0) skip.also_to = number(skip.to + 1, last);
    skips.push_back(skip);
  }
  const FirstInput first = number(0, 2) == 0 ? FirstInput::kData : FirstInput::kTable;
  Layout layout{emulated_layout(sizes, stages, std::string(schedule.name), microbatches, number(20, 400)),
                emulated_model(blocks, skips, first), ""};
  layout.config.credits = number(1, 4);
  layout.config.resharding = transfer::Strategy::kSendRecv;
  for (mesh::StageConfig& stage : layout.config.stages) stage.recompute = number(0, 3) == 0;
  layout.text = fmt::format("{} on {} meshes, {} stages, {} blocks{}, {} skips, {} microbatches, {} credits", schedule.name,
                            meshes, stages.size(), blocks.size(), first == FirstInput::kData ? " without a table" : "",
                            skips.size(), microbatches, layout.config.credits);
  return layout;
}

Played play(const mesh::TrainingPlan& plan, const mesh::ScheduleCosts& costs) {
  const auto seconds = [&](const mesh::Program& program, const mesh::Transfer& transfer) {
    if (transfer.kind == mesh::TransferKind::kReshard) return plan.train.edges[transfer.op].plan.predicted_seconds;
    if (transfer.kind == mesh::TransferKind::kNorm) return costs.exchange;
    double sum = 0;  // of the gradients of all stages on this mesh
    for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
      const auto& mesh = plan.partition.meshes[static_cast<std::size_t>(plan.partition.mesh_of_stage[stage])];
      if (mesh.rank_of(program.device)) sum += costs.stages[stage].reduce_grad;
    }
    return sum;
  };
  return ProgramPlayer(plan.train.programs, seconds).play();
}

mesh::Schedule schedule_of(const mesh::NamedSchedule& named, const mesh::LayoutConfig& layout) {
  return mesh::make_schedule(
      {std::string(named.name), static_cast<int>(layout.meshes.size()), layout.microbatches, named.chunks, 0});
}

TEST(PlayedPrograms, EndWhenTheSimulatorSays) {
  const std::uint32_t seed = 20261121;
  std::mt19937 random(seed);
  for (const mesh::NamedSchedule& named : mesh::named_schedules()) {
    for (int round = 0; round < 12; ++round) {
      Layout layout = random_layout(named, random);
      for (const mesh::Lowering lowering : {mesh::Lowering::kLanes, mesh::Lowering::kSafe}) {
        layout.config.lowering = lowering;
        const mesh::TrainingPlan plan = emulated_plan(layout.config, layout.model);
        mesh::ScheduleCosts costs = mesh::plan_costs(plan, mesh::cost_model_seconds(0));
        costs.nic_of_actor.clear();
        const Played played = play(plan, costs);
        ASSERT_TRUE(played.finished);
        const mesh::Simulation simulation = mesh::simulate(schedule_of(named, layout.config), costs, mesh::plan_options(plan));
        const double last = *std::ranges::max_element(played.last_run), end = *std::ranges::max_element(played.end);
        const std::string text =
            fmt::format("{}{}, seed {}, round {}", layout.text, lowering == mesh::Lowering::kSafe ? ", safe" : "", seed, round);
        EXPECT_NEAR(simulation.makespan, last, 1e-9 * last) << text;
        EXPECT_NEAR(simulation.step, end, 1e-9 * end) << text;
      }
    }
  }
}

}  // namespace
}  // namespace weft::test

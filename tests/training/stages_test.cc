// Master test of layouts with several stages per mesh, skip connections, split backwards and both
// lowerings. Pipelines without other parallelism equal one device bit for bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "core/evaluate/one_device_trainer.h"
#include "core/ops/graph_builder.h"
#include "mesh/program/checkpoint_programs.h"
#include "mesh/runtime/in_process_training.h"
#include "mesh/schedule/named_schedules.h"
#include "tests/support/detached_device.h"
#include "tests/support/thrown_error.h"
#include "tests/training/checkpoint_blocks.h"
#include "tests/training/hand_schedules.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"
#include "tests/training/train_then_validate.h"

namespace weft::test {
namespace {

constexpr std::uint64_t kStagesSteps = 6;

/// Builds four blocks in a U shape. The third adds the output of the second, the fourth that of the
/// first.
mesh::ModelGraphs u_shaped() {
  constexpr std::int64_t kWidth = 12;
  GraphBuilder b;
  const ValueId tokens =
      b.input("tokens", {DType::kI32, {kRows, kSequence}}, {"batch", "sequence"});
  const ValueId targets =
      b.input("targets", {DType::kI32, {kRows, kSequence}}, {"batch", "sequence"});
  ValueId x = b.embedding(
      b.parameter("table", {kVocabulary, kWidth}, normal(0.3), {"vocab", "embed"}), tokens);
  std::vector<ValueId> skips;
  for (int block = 0; block < 4; ++block) {
    b.set_block(block);
    const auto scope = b.scope("block" + std::to_string(block));
    if (block >= 2) x = b.add(x, skips[3 - block]);
    const ValueId gamma = b.parameter("gamma", {kWidth}, ones(), {"embed"}, false);
    const ValueId beta = b.parameter("beta", {kWidth}, zeros(), {"embed"}, false);
    const ValueId wide = b.linear(b.layer_norm(x, gamma, beta),
                                  b.parameter("in", {kWidth, 24}, normal(0.2), {"embed", "mlp"}));
    x = b.add(
        x, b.linear(b.gelu(wide), b.parameter("out", {24, kWidth}, normal(0.2), {"mlp", "embed"})));
    skips.push_back(x);
  }
  const ValueId logits =
      b.linear(x, b.parameter("head", {kWidth, kVocabulary}, normal(0.2), {"embed", "vocab"}));
  const ValueId loss = b.cross_entropy(logits, targets, 1.0 / (kRows * kSequence * kMicrobatches));
  const Graph graph = std::move(b).finish();
  return {differentiate(graph, loss), graph, loss};
}

struct Layout {
  std::string name;
  std::vector<std::pair<int, int>> meshes;  ///< (data, tensor)
  std::vector<int> mesh_of_stage;
  std::vector<int> layers;  ///< Layers per stage, four in total.
  std::optional<mesh::Schedule> schedule = {};
  std::vector<bool> recompute = {};  ///< Flag per stage.
  std::string named = "1f1b";        ///< Used if `schedule` is empty.
};

mesh::TrainingPlan plan_of_stages(const Layout& l, const mesh::ModelGraphs& model,
                                  mesh::Lowering lowering, int credits) {
  Case c{l.name, l.meshes, {}, false};
  c.layers.assign(l.meshes.size(), 1);
  mesh::ParallelConfig layout = layout_of(c, l.named, transfer::ReshardAlgorithm::kWeft);
  layout.stages.clear();
  for (std::size_t s = 0; s < l.layers.size(); ++s)
    layout.stages.push_back(
        {l.mesh_of_stage[s], l.layers[s], s < l.recompute.size() && l.recompute[s]});
  layout.own_schedule = l.schedule;
  layout.lowering = lowering;
  layout.credits = credits;
  return mesh::make_training_plan(layout, model, places_of(c));
}

std::vector<mesh::StepResult> train_and_validate(const mesh::TrainingPlan& plan,
                                                 const transfer::LoopbackOptions& options = {},
                                                 Device* device = nullptr) {
  return train_then_validate(plan, kStagesSteps, options, device);
}

enum class Model : std::uint8_t { kGpt, kTied, kUShaped, kTiedInBF16 };

mesh::ModelGraphs graphs_of(Model model) {
  if (model == Model::kUShaped) return u_shaped();
  return small_gpt(4, model != Model::kGpt,
                   model == Model::kTiedInBF16 ? DType::kBF16 : DType::kF32);
}

const std::vector<mesh::StepResult>& on_one_device(Model model) {
  static std::map<Model, std::vector<mesh::StepResult>> results;
  auto& found = results[model];
  if (found.empty())
    found = train_and_validate(
        plan_of_stages({"one", {{1, 1}}, {0}, {4}}, graphs_of(model), mesh::Lowering::kLanes, 2));
  return found;
}

void expect_equal(const std::vector<mesh::StepResult>& results,
                  const std::vector<mesh::StepResult>& expected) {
  ASSERT_LT(expected[kStagesSteps - 1].loss, expected.front().loss);
  for (std::size_t step = 0; step < results.size(); ++step) {
    EXPECT_EQ(results[step].loss, expected[step].loss) << "step " << step;
    EXPECT_EQ(results[step].grad_norm, expected[step].grad_norm) << "step " << step;
  }
}

std::vector<Layout> layouts() {
  const std::vector<std::pair<int, int>> one(1, {1, 1}), two(2, {1, 1}), four(4, {1, 1});
  return {
      {"four_stages_on_one_mesh",
       one,
       {0, 0, 0, 0},
       {1, 1, 1, 1},
       schedule_from("one actor", {0, 0, 0, 0},
                     {"0F0 1F0 2F0 3F0 3B0 2B0 1I0 0F1 1F1 0I0 2F1 3F1 3B1 2B1 1W0 1B1 0W0 0B1 "
                      "0F2 0F3 1F2 1F3 2F2 2F3 3F2 3F3 3B2 3B3 2B2 2B3 1B2 1B3 0B2 0B3"})},
      {"interleaved", two, {0, 1, 0, 1}, {1, 1, 1, 1}, interleaved()},
      {"v_placement", two, {0, 1, 1, 0}, {1, 1, 1, 1}, v_placement()},
      {"zb_h1", two, {0, 1}, {2, 2}, zb_h1()},
      {"late_weights", two, {0, 1}, {1, 3}, late_weights()},
      {"four_meshes", four, {0, 1, 2, 3}, {1, 1, 1, 1}},
      {"recompute", two, {0, 1}, {2, 2}, zb_h1(), {true, true}},
      {"recompute_as_scheduled", two, {0, 1}, {2, 2}, with_recomputation()},
      {"recompute_some_of_a_v",
       two,
       {0, 1, 1, 0},
       {1, 1, 1, 1},
       v_placement(),
       {true, false, true, true}},
  };
}

class Stages : public testing::TestWithParam<std::tuple<Layout, Model, mesh::Lowering, int>> {};

TEST_P(Stages, LossesEqualThoseOfOneDevice) {
  const auto& [layout, model, lowering, credits] = GetParam();
  const mesh::TrainingPlan plan = plan_of_stages(layout, graphs_of(model), lowering, credits);
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = 3;
  expect_equal(train_and_validate(plan, shuffled), on_one_device(model));
}

std::string suffix(Model model, mesh::Lowering lowering) {
  const std::string models[] = {"_gpt", "_tied", "_u", "_tied_bf16"};
  return models[static_cast<int>(model)] + (lowering == mesh::Lowering::kSafe ? "_safe" : "_lanes");
}

std::string name_of(const testing::TestParamInfo<Stages::ParamType>& test) {
  const auto& [layout, model, lowering, credits] = test.param;
  return layout.name + suffix(model, lowering) + std::to_string(credits);
}

INSTANTIATE_TEST_SUITE_P(
    All, Stages,
    testing::Combine(testing::ValuesIn(layouts()),
                     testing::Values(Model::kGpt, Model::kTied, Model::kUShaped),
                     testing::Values(mesh::Lowering::kLanes, mesh::Lowering::kSafe),
                     testing::Values(1, 3)),
    name_of);

class NamedStages : public testing::TestWithParam<std::tuple<std::string, Model, mesh::Lowering>> {
};

/// Makes a layout with a named schedule on two meshes of one device.
Layout layout_of_named(const std::string& name) {
  const mesh::NamedSchedule& named = mesh::find_named_schedule(name);
  const std::vector<int> mesh_of_stage = mesh::place_stages(named.placement, 2, named.chunks);
  Layout layout{name, {{1, 1}, {1, 1}}, mesh_of_stage, {}};
  layout.layers.assign(mesh_of_stage.size(), 4 / static_cast<int>(mesh_of_stage.size()));
  layout.named = name;
  return layout;
}

TEST_P(NamedStages, LossesEqualThoseOfOneDevice) {
  const auto& [name, model, lowering] = GetParam();
  expect_equal(
      train_and_validate(plan_of_stages(layout_of_named(name), graphs_of(model), lowering, 2)),
      on_one_device(model));
}

std::string name_of_named(const testing::TestParamInfo<NamedStages::ParamType>& test) {
  const auto& [schedule, model, lowering] = test.param;
  std::string name = schedule + suffix(model, lowering);
  for (char& letter : name) letter = letter == '-' ? '_' : letter;
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, NamedStages,
                         testing::Combine(testing::ValuesIn(mesh::schedule_names()),
                                          testing::Values(Model::kGpt, Model::kTied,
                                                          Model::kUShaped, Model::kTiedInBF16),
                                          testing::Values(mesh::Lowering::kLanes,
                                                          mesh::Lowering::kSafe)),
                         name_of_named);

/// Returns all layouts above, for detached devices. Models and lowerings alternate.
std::vector<Layout> detached_layouts() {
  std::vector<Layout> all = layouts();
  for (const std::string& name : mesh::schedule_names()) all.push_back(layout_of_named(name));
  return all;
}

class DetachedStages : public testing::TestWithParam<std::size_t> {};

TEST_P(DetachedStages, LossesEqualThoseOfOneDevice) {
  const std::size_t turn = GetParam();
  const auto model = static_cast<Model>(turn % 3);
  const auto lowering = turn % 2 == 0 ? mesh::Lowering::kLanes : mesh::Lowering::kSafe;
  DetachedDevice device({.shuffle_seed = turn + 1});
  const mesh::TrainingPlan plan = plan_of_stages(detached_layouts()[turn], graphs_of(model),
                                                 lowering, 1 + static_cast<int>(turn % 3));
  expect_equal(train_and_validate(plan, {}, &device), on_one_device(model));
}

INSTANTIATE_TEST_SUITE_P(All, DetachedStages,
                         testing::Range(std::size_t{0}, detached_layouts().size()),
                         [](const auto& test) {
                           std::string name = detached_layouts()[test.param].name + "_" +
                                              std::to_string(test.param);
                           for (char& letter : name) letter = letter == '-' ? '_' : letter;
                           return name;
                         });

TEST(ChangedSchedules, BetweenStepsLeaveLossesAsTheyAre) {
  const mesh::ModelGraphs model = graphs_of(Model::kUShaped);
  const Layout layout{"two", {{1, 1}, {1, 1}}, {0, 1}, {2, 2}};
  std::vector<mesh::TrainingPlan> plans{plan_of_stages(layout, model, mesh::Lowering::kLanes, 2)};
  for (const mesh::Schedule& schedule : {zb_h1(), with_recomputation(), late_weights()}) {
    Layout changed = layout;
    changed.schedule = schedule;
    plans.push_back(plan_of_stages(
        changed, model, plans.size() == 2 ? mesh::Lowering::kSafe : mesh::Lowering::kLanes, 1));
    mesh::check_compatible_layouts(plans.front().layout, plans.back().layout);
  }
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining training(plans.front(), batches, 7);
  std::vector<mesh::StepResult> results;
  for (std::uint64_t step = 0; step < kStagesSteps; ++step) {
    training.use(plans[step % plans.size()]);
    results.push_back(training.run(train_step(step)));
  }
  expect_equal(results, on_one_device(Model::kUShaped));

  mesh::ParallelConfig other = plans.front().layout;
  other.stages = {{0, 1}, {1, 3}};
  EXPECT_THAT([&] { mesh::check_compatible_layouts(plans.front().layout, other); },
              throws_error(ErrorCode::kInvalidArgument, "has other layers in its stages"));
}

void expect_times_of_everything(Device* device) {
  Layout layout{"two", {{1, 2}, {1, 1}}, {0, 1}, {2, 2}, zb_h1()};
  const mesh::TrainingPlan plan =
      plan_of_stages(layout, graphs_of(Model::kUShaped), mesh::Lowering::kLanes, 2);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining training(plan, batches, 7, {}, device);
  const std::vector<mesh::StepReport> reports = training.run_on_devices(train_step(0));
  double most = 0;
  for (const mesh::StepReport& report : reports) {
    EXPECT_LE(report.compute_seconds + report.wait_seconds, report.step_seconds * (1 + 1e-9));
    EXPECT_GT(report.wait_seconds, 0);
    double computing = 0;
    for (const mesh::ActionTime& time : report.action_times) computing += time.count * time.seconds;
    EXPECT_GT(computing, 0);
    EXPECT_LE(computing, report.compute_seconds * (1 + 1e-9)) << "the update belongs to no action";
    most = std::max(most, report.action_times.front().seconds);
  }
  const mesh::StepResult result = mesh::combine(reports);
  std::vector<std::pair<int, mesh::ActionKind>> kinds;
  for (const mesh::ActionTime& time : result.action_times) {
    kinds.emplace_back(time.stage, time.kind);
    EXPECT_EQ(time.count, 4u);
    EXPECT_GE(time.collective_seconds, 0);
  }
  EXPECT_LE(result.action_times.front().seconds, most);
  using enum mesh::ActionKind;
  EXPECT_EQ(kinds, (std::vector<std::pair<int, mesh::ActionKind>>{{0, kForward},
                                                                  {0, kInputGrad},
                                                                  {0, kWeightGrad},
                                                                  {1, kForward},
                                                                  {1, kInputGrad},
                                                                  {1, kWeightGrad}}));
  ASSERT_EQ(result.edge_times.size(), plan.train.edges.size());
  for (std::size_t e = 0; e < plan.train.edges.size(); ++e) {
    EXPECT_EQ(result.edge_times[e].op, plan.train.edges[e].op);
    EXPECT_EQ(result.edge_times[e].count, 4u);
    EXPECT_GE(result.edge_times[e].seconds, 0);
  }
}

TEST(StepTimes, AreThereForEveryKindOfActionAndEveryEdge) { expect_times_of_everything(nullptr); }

TEST(StepTimes, OfADeviceThatRunsByItselfAreTakenWhereItIs) {
  DetachedDevice device({.shuffle_seed = 5});
  expect_times_of_everything(&device);
}

TEST(NamedSchedules, StagesThatLieOtherwiseThanTheSchedulePlacesThemAreExplained) {
  Layout layout{"v", {{1, 1}, {1, 1}}, {0, 1, 0, 1}, {1, 1, 1, 1}};
  layout.named = "zb-v";
  EXPECT_THAT([&] { plan_of_stages(layout, u_shaped(), mesh::Lowering::kLanes, 2); },
              throws_error(ErrorCode::kInvalidConfig,
                           "puts 2 stages on every mesh: list stages on the meshes mesh0, "
                           "mesh1, mesh1, mesh0 in this order, not mesh0, mesh1, mesh0, "
                           "mesh1"));
}

TEST(ShardedStages, InterleavedOverDataAndTensorParallelMeshesStaysWithinTheTolerance) {
  for (const Model model : {Model::kGpt, Model::kTied, Model::kUShaped}) {
    const Layout layout{"sharded", {{2, 1}, {1, 2}}, {0, 1, 0, 1}, {1, 1, 1, 1}, interleaved()};
    const auto results =
        train_and_validate(plan_of_stages(layout, graphs_of(model), mesh::Lowering::kLanes, 2));
    const auto& expected = on_one_device(model);
    for (std::size_t step = 0; step < results.size(); ++step) {
      EXPECT_NEAR(results[step].loss, expected[step].loss, 2e-4 * std::abs(expected[step].loss))
          << "step " << step;
    }
  }
}

TEST(SharedWeights, EachTermCrossesOncePerStepAndTheCheckpointHoldsTheParameterOnce) {
  const Layout three{"three", {{1, 1}, {1, 2}, {1, 1}}, {0, 1, 2}, {1, 2, 1}};
  const mesh::TrainingPlan plan =
      plan_of_stages(three, graphs_of(Model::kTied), mesh::Lowering::kLanes, 2);
  ASSERT_EQ(plan.train.terms.size(), 2u);
  EXPECT_EQ(plan.train.terms[0].from_mesh, mesh::MeshId(0));
  EXPECT_EQ(plan.train.terms[0].to_mesh, mesh::MeshId(2));
  EXPECT_EQ(plan.train.terms[1].from_mesh, mesh::MeshId(2));
  std::map<std::string, int> crossings;
  for (const mesh::Program& program : plan.train.programs) {
    for (const mesh::Instruction& instruction : program.instructions) {
      const auto* start = std::get_if<mesh::Start>(&instruction);
      if (start != nullptr && start->source >= 0 &&
          program.transfers[start->transfer].kind == mesh::TransferPurpose::kReshard &&
          start->microbatch < 0) {
        ++crossings[program.transfers[start->transfer].name];
      }
    }
  }
  EXPECT_EQ(crossings, (std::map<std::string, int>{{"gradient of embedding mesh0->mesh2", 1},
                                                   {"gradient of embedding mesh2->mesh0", 1}}));
  int saved = 0;
  for (const mesh::Transfer& transfer : plan.checkpoint.front().gather.back().transfers)
    saved += transfer.name == "parameter/embedding" ? 1 : 0;
  EXPECT_EQ(saved, 1);
}

TEST(SharedWeights, ResumeFromACheckpointOnOtherMeshes) {
  const auto model = graphs_of(Model::kTied);
  const mesh::TrainingPlan first = plan_of_stages(layouts()[5], model, mesh::Lowering::kLanes, 2);
  const mesh::TrainingPlan second = plan_of_stages(layouts()[1], model, mesh::Lowering::kSafe, 2);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining whole(first, batches, 7), resumed(second, batches, 8);
  for (std::uint64_t step = 0; step < 3; ++step) whole.run(train_step(step));
  scatter(resumed, gather(whole));
  for (std::uint64_t step = 3; step < kStagesSteps; ++step)
    EXPECT_EQ(resumed.run(train_step(step)).loss, whole.run(train_step(step)).loss);
}

class OneDeviceTerms : public testing::TestWithParam<Model> {};

TEST_P(OneDeviceTerms, TheOneDeviceTrainerAddsThemInTheSameOrder) {
  const auto model = graphs_of(GetParam());
  CpuDevice device;
  OneDeviceTrainer trainer(device, model.train, 7);
  RandomBatches batches({kRows, kVocabulary, 11});
  const std::vector<mesh::StepResult>& expected = on_one_device(GetParam());
  for (std::uint64_t step = 0; step < kStagesSteps; ++step) {
    const mesh::OptimizerStep rates = train_step(step).optimizer;
    const auto feed = [&](int microbatch, Evaluation& evaluation) {
      for (const Input& input : model.train.graph.inputs()) {
        const Value& value = model.train.graph.value(input.value);
        batches.read(value.name, mesh::Split::kTrain, step, microbatch, kMicrobatches,
                     Region::whole(value.type.shape),
                     std::as_writable_bytes(evaluation.data<std::int32_t>(input.value)));
      }
    };
    const AdamW optimizer{
        rates.learning_rate, rates.beta1, rates.beta2, rates.epsilon, rates.weight_decay, 1, 1};
    const TrainingReport report = trainer.step(kMicrobatches, feed, optimizer, rates.clip_norm);
    EXPECT_EQ(report.loss, expected[step].loss) << "step " << step;
    EXPECT_EQ(report.gradient_norm, expected[step].grad_norm) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(SharedWeights, OneDeviceTerms,
                         testing::Values(Model::kTied, Model::kTiedInBF16), [](const auto& test) {
                           return test.param == Model::kTied ? "f32" : "bf16";
                         });

TEST(Signals, CarryNextToNothingThroughTheSamePrograms) {
  Case c{"c", {{2, 1}, {1, 2}}, {2, 2}, false};
  mesh::ParallelConfig layout = layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft);
  const mesh::TrainingPlan full = mesh::make_training_plan(layout, u_shaped(), places_of(c));
  layout.payload = mesh::Payload::kSignals;
  const mesh::TrainingPlan signals = mesh::make_training_plan(layout, u_shaped(), places_of(c));
  for (std::size_t i = 0; i < full.train.programs.size(); ++i) {
    EXPECT_EQ(signals.train.programs[i].instructions.size(),
              full.train.programs[i].instructions.size());
  }
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining training(full, batches, 7), bound(signals, batches, 7);
  const mesh::StepResult expected = training.run(train_step(0)), result = bound.run(train_step(0));
  EXPECT_LE(result.reshard_bytes, 6u * kMicrobatches * 4u * sizeof(float));
  EXPECT_GT(expected.reshard_bytes, 100 * result.reshard_bytes);
}

// Mirrored stages of a U share a mesh, so that skip connections stay in memory.
TEST(SkipConnections, WithVPlacementNoneTravels) {
  const Layout v{"v", {{1, 1}, {1, 1}}, {0, 1, 1, 0}, {1, 1, 1, 1}, v_placement()};
  EXPECT_EQ(plan_of_stages(v, u_shaped(), mesh::Lowering::kLanes, 2).train.edges.size(), 4u);
  const Layout chain{"chain", {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, {0, 1, 2, 3}, {1, 1, 1, 1}};
  EXPECT_EQ(plan_of_stages(chain, u_shaped(), mesh::Lowering::kLanes, 2).train.edges.size(),
            8u);  // 0-1, 1-2, 2-3 and 0-3, each way
}

TEST(Recomputation, ShrinksTheArenaAndRunsOnlyWhatTheBackwardNeeds) {
  const Layout kept{"kept", {{1, 1}, {1, 1}}, {0, 1}, {2, 2}};
  Layout dropped = kept;
  dropped.recompute = {true, false};
  const auto model = graphs_of(Model::kGpt);
  const auto before = plan_of_stages(kept, model, mesh::Lowering::kLanes, 2).train.programs;
  const auto after = plan_of_stages(dropped, model, mesh::Lowering::kLanes, 2).train.programs;
  EXPECT_LT(2 * after[0].arena_bytes, before[0].arena_bytes * 3 / 2);
  EXPECT_EQ(after[1].arena_bytes, before[1].arena_bytes);
  const auto runs = [](const mesh::Program& program) {
    return std::count_if(program.instructions.begin(), program.instructions.end(),
                         [](const mesh::Instruction& instruction) {
                           return std::holds_alternative<mesh::Run>(instruction);
                         });
  };
  EXPECT_GT(runs(after[0]), runs(before[0]));
  // The stage's last op makes the sent tensor, which the backward does not need.
  const std::ptrdiff_t forwards =
      std::count_if(model.validate.nodes().begin(), model.validate.nodes().end(),
                    [](const Node& node) { return node.block < 2; });
  EXPECT_LT(runs(after[0]), runs(before[0]) + kMicrobatches * forwards);
}

TEST(Recomputation, ShardedStagesRepeatTheirCollectives) {
  Layout layout{"sharded", {{2, 1}, {1, 2}}, {0, 1, 0, 1}, {1, 1, 1, 1}, interleaved()};
  const auto expected =
      train_and_validate(plan_of_stages(layout, graphs_of(Model::kGpt), mesh::Lowering::kLanes, 2));
  layout.recompute = {true, true, true, true};
  expect_equal(
      train_and_validate(plan_of_stages(layout, graphs_of(Model::kGpt), mesh::Lowering::kLanes, 2)),
      expected);
}

/// Returns the indices of the instructions that begin an action.
std::map<std::string, std::size_t> begins(const mesh::Program& program) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* begin = std::get_if<mesh::BeginAction>(&program.instructions[i]);
    if (begin != nullptr)
      places[to_string(mesh::Action{begin->stage, begin->kind, begin->microbatch})] = i;
  }
  return places;
}

TEST(Sends, ASkipTensorLeavesBeforeItsStageEnds) {
  const Layout three{"three", {{1, 1}, {1, 1}, {1, 1}}, {0, 1, 2}, {2, 1, 1}};
  const mesh::TrainingPlan plan = plan_of_stages(three, u_shaped(), mesh::Lowering::kLanes, 2);
  const mesh::Program& first = plan.train.programs[0];
  const std::size_t begin = begins(first).at("0F1");
  std::size_t computed_after = 0;
  bool sent = false;
  for (std::size_t i = begin + 1; !std::holds_alternative<mesh::BeginAction>(first.instructions[i]);
       ++i) {
    const auto* start = std::get_if<mesh::Start>(&first.instructions[i]);
    if (start != nullptr && first.transfers[start->transfer].name == "block0.add mesh0->mesh2")
      sent = true;
    if (sent && std::holds_alternative<mesh::Run>(first.instructions[i])) ++computed_after;
  }
  EXPECT_TRUE(sent);
  EXPECT_GT(computed_after, 3u);
}

TEST(SafeMode, EveryTransferIsWaitedForWhereItStarts) {
  const Layout layout{"interleaved", {{1, 1}, {1, 1}}, {0, 1, 0, 1}, {1, 1, 1, 1}, interleaved()};
  const mesh::TrainingPlan plan = plan_of_stages(layout, u_shaped(), mesh::Lowering::kSafe, 2);
  for (const mesh::Program& program : plan.train.programs) {
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      if (!std::holds_alternative<mesh::Start>(program.instructions[i])) continue;
      EXPECT_TRUE(std::holds_alternative<mesh::Wait>(program.instructions[i + 1]))
          << program.device_name << " instruction " << i;
    }
  }
}

}  // namespace
}  // namespace weft::test

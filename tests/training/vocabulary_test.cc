// Tests Vocabulary Parallelism: embedding and output layer, shared by all devices of a pipeline,
// train as on one device with every schedule, mesh and lowering.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "mesh/layouts/split_graph.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/vocabulary.h"
#include "tests/support/detached_device.h"
#include "tests/support/thrown_error.h"
#include "tests/training/layouts.h"
#include "tests/training/same_bits.h"
#include "tests/training/train_then_validate.h"

namespace weft::test {
namespace {

using mesh::VocabularyMode;

constexpr std::uint64_t kSharedSteps = 3;

struct Shared {
  std::string name;
  std::vector<std::pair<int, int>> meshes;  ///< (data, tensor)
  std::string schedule = "1f1b";
  int layers = 4;
};

mesh::ParallelConfig layout_of(const Shared& shared, VocabularyMode mode) {
  const mesh::NamedSchedule& named = mesh::find_named_schedule(shared.schedule);
  const int meshes = static_cast<int>(shared.meshes.size());
  Case c{shared.name, shared.meshes, std::vector<int>(meshes, 1), false};
  mesh::ParallelConfig layout = layout_of(c, shared.schedule, transfer::ReshardAlgorithm::kWeft);
  const std::vector<int> mesh_of_stage = mesh::place_stages(named.placement, meshes, named.chunks);
  layout.stages.clear();
  for (std::size_t s = 0; s < mesh_of_stage.size(); ++s) {
    const int each = shared.layers / static_cast<int>(mesh_of_stage.size());
    const int more = s == 0 ? shared.layers % static_cast<int>(mesh_of_stage.size()) : 0;
    layout.stages.push_back({mesh_of_stage[s], each + more});
  }
  layout.vocabulary = mode;
  return layout;
}

mesh::TrainingPlan plan_of(const Shared& shared, VocabularyMode mode,
                           const mesh::ModelGraphs& model,
                           mesh::Lowering lowering = mesh::Lowering::kLanes) {
  mesh::ParallelConfig layout = layout_of(shared, mode);
  layout.lowering = lowering;
  const Case c{shared.name, shared.meshes, {}, false};
  return mesh::make_training_plan(layout, model, places_of(c));
}

std::vector<mesh::StepResult> train_shared(const mesh::TrainingPlan& plan,
                                           std::uint64_t steps = kSharedSteps,
                                           Device* device = nullptr) {
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = 5;
  return train_then_validate(plan, steps, shuffled, device);
}

enum class SharedModel : std::uint8_t { kGpt, kTied, kTiedInBF16 };

mesh::ModelGraphs shared_graphs(SharedModel model) {
  return small_gpt(4, model != SharedModel::kGpt,
                   model == SharedModel::kTiedInBF16 ? DType::kBF16 : DType::kF32);
}

const std::vector<mesh::StepResult>& alone(SharedModel model) {
  static std::map<SharedModel, std::vector<mesh::StepResult>> results;
  auto& found = results[model];
  if (found.empty())
    found = train_shared(plan_of({"one", {{1, 1}}}, VocabularyMode::kLast, shared_graphs(model)));
  return found;
}

void expect_near(const std::vector<mesh::StepResult>& results,
                 const std::vector<mesh::StepResult>& expected, double tolerance) {
  ASSERT_LT(expected[kSharedSteps - 1].loss, expected.front().loss);
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t step = 0; step < results.size(); ++step) {
    EXPECT_NEAR(results[step].loss, expected[step].loss, tolerance * expected[step].loss)
        << "step " << step;
    EXPECT_NEAR(results[step].grad_norm, expected[step].grad_norm,
                10 * tolerance * expected[step].grad_norm)
        << "step " << step;
  }
}

std::vector<Shared> shared_layouts() {
  return {{"two", {{1, 1}, {1, 1}}},
          {"three", {{1, 1}, {1, 1}, {1, 1}}, "zb-h1"},
          {"four", {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, "eager-1f1b"},
          {"v", {{1, 1}, {1, 1}}, "v-half"},
          {"quickstart", {{1, 2}, {2, 1}}, "eager-1f1b"},
          {"replicas", {{2, 1}, {2, 1}}, "1f1b"},
          {"mixed", {{2, 2}, {2, 1}}, "1f1b"}};
}

class Vocabulary : public testing::TestWithParam<
                       std::tuple<Shared, SharedModel, VocabularyMode, mesh::Lowering>> {};

TEST_P(Vocabulary, TrainsAsOnOneDevice) {
  const auto& [shared, model, mode, lowering] = GetParam();
  expect_near(train_shared(plan_of(shared, mode, shared_graphs(model), lowering)), alone(model),
              model == SharedModel::kTiedInBF16 ? 5e-3 : 1e-5);
}

std::string shared_name(const testing::TestParamInfo<Vocabulary::ParamType>& test) {
  const auto& [shared, model, mode, lowering] = test.param;
  const std::string models[] = {"_gpt", "_tied", "_tied_bf16"};
  std::string name = shared.name + models[static_cast<int>(model)] + "_" +
                     std::string(to_string(mode)) +
                     (lowering == mesh::Lowering::kSafe ? "_safe" : "_lanes");
  for (char& letter : name) letter = letter == '-' ? '_' : letter;
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    All, Vocabulary,
    testing::Combine(testing::ValuesIn(shared_layouts()), testing::Values(SharedModel::kGpt),
                     testing::Values(VocabularyMode::kVocab1, VocabularyMode::kVocab2),
                     testing::Values(mesh::Lowering::kLanes, mesh::Lowering::kSafe)),
    shared_name);

INSTANTIATE_TEST_SUITE_P(
    OtherModels, Vocabulary,
    testing::Combine(testing::Values(Shared{"v", {{1, 1}, {1, 1}}, "v-half"},
                                     Shared{"quickstart", {{1, 2}, {2, 1}}, "eager-1f1b"}),
                     testing::Values(SharedModel::kTied, SharedModel::kTiedInBF16),
                     testing::Values(VocabularyMode::kVocab1, VocabularyMode::kVocab2),
                     testing::Values(mesh::Lowering::kLanes)),
    shared_name);

TEST(VocabularyOverTime, StaysNearOneDevice) {
  constexpr std::uint64_t kMany = 20;
  const mesh::ModelGraphs model = shared_graphs(SharedModel::kGpt);
  const auto expected =
      train_shared(plan_of({"one", {{1, 1}}}, VocabularyMode::kLast, model), kMany);
  for (const VocabularyMode mode :
       {VocabularyMode::kVocab1, VocabularyMode::kVocab2, VocabularyMode::kInterlaced}) {
    SCOPED_TRACE(to_string(mode));
    for (const int devices : {2, 3}) {
      const Shared shared{"pipeline", std::vector<std::pair<int, int>>(devices, {1, 1})};
      const auto lowering = devices == 2 ? mesh::Lowering::kLanes : mesh::Lowering::kSafe;
      const auto results = train_shared(plan_of(shared, mode, model, lowering), kMany);
      for (std::size_t step = 0; step < results.size(); ++step)
        EXPECT_NEAR(results[step].loss, expected[step].loss, 2e-4 * expected[step].loss) << step;
    }
  }
}

class VocabularyBits : public testing::TestWithParam<std::tuple<VocabularyMode, SharedModel>> {};

TEST_P(VocabularyBits, AreTheSameUnderAllSchedules) {
  const auto& [mode, model] = GetParam();
  const std::vector<std::pair<int, int>> two(2, {1, 1});
  const auto first = train_shared(plan_of({"two", two, "1f1b"}, mode, shared_graphs(model)));
  int turn = 0;
  for (const std::string& name : mesh::schedule_names()) {
    SCOPED_TRACE(name);
    const auto lowering = name.size() % 2 == 0 ? mesh::Lowering::kLanes : mesh::Lowering::kSafe;
    DetachedDevice device({.shuffle_seed = 3});
    const mesh::TrainingPlan plan =
        plan_of({name, two, name}, mode, shared_graphs(model), lowering);
    // Synchronous and detached devices alternate.
    Device* const detached = turn++ % 2 == 0 ? nullptr : &device;
    expect_same_bits(train_shared(plan, kSharedSteps, detached), first);
  }
}

/// Plans a vocabulary split over an axis of one mesh, with the same number of parts and the same
/// form.
mesh::TrainingPlan on_one_mesh(int ways, VocabularyMode mode, const mesh::ModelGraphs& model) {
  const Case c{"one", {{1, ways}}, {4}, false};
  mesh::ParallelConfig layout = layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft);
  layout.sharding = {{{"vocab", {"tensor"}}}};
  mesh::FeatureSplits splits{1, ways, ways};
  const auto split = [&](const TrainingGraph& graph) {
    splits.early_input_grad = mode == VocabularyMode::kVocab2;
    return mesh::split_graph(graph, std::vector(4, splits));
  };
  const TrainingGraph validate = split({model.validate, model.validate_loss, {}});
  return mesh::make_training_plan(layout, {split(model.train), validate.graph, validate.loss},
                                  places_of(c));
}

TEST_P(VocabularyBits, AreThoseOfAsManyShardsOnOneMesh) {
  const auto& [mode, model] = GetParam();
  for (const int devices : {2, 3, 4}) {
    SCOPED_TRACE(devices);
    const Shared shared{"pipeline", std::vector<std::pair<int, int>>(devices, {1, 1}), "1f1b"};
    expect_same_bits(train_shared(plan_of(shared, mode, shared_graphs(model))),
                     train_shared(on_one_mesh(devices, mode, shared_graphs(model))));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, VocabularyBits,
    testing::Combine(testing::Values(VocabularyMode::kVocab1, VocabularyMode::kVocab2),
                     testing::Values(SharedModel::kGpt, SharedModel::kTied)),
    [](const auto& test) {
      return std::string(std::get<0>(test.param) == VocabularyMode::kVocab1 ? "one" : "two") +
             (std::get<1>(test.param) == SharedModel::kGpt ? "_gpt" : "_tied");
    });

/// Returns the error of a layout with a shared vocabulary; empty if it is accepted.
std::string vocabulary_refusal(const Shared& shared, VocabularyMode mode,
                               const mesh::ModelGraphs& model) {
  return error_message(ErrorCode::kInvalidConfig, [&] { plan_of(shared, mode, model); });
}

TEST(VocabularyRefusals, SayWhatToDo) {
  const mesh::ModelGraphs model = shared_graphs(SharedModel::kGpt);
  EXPECT_THAT(vocabulary_refusal({"one", {{1, 1}}}, VocabularyMode::kVocab2, model),
              testing::HasSubstr("there is only 'mesh0'"));
  EXPECT_THAT(
      vocabulary_refusal({"two", {{1, 1}, {1, 1}}, "zb-h1"}, VocabularyMode::kInterlaced, model),
      testing::HasSubstr("goes with the schedule 1f1b, not with zb-h1"));
}

/// Returns the error of a custom schedule; empty if it is accepted.
std::string own_schedule_refusal(VocabularyMode mode, const mesh::Schedule& schedule,
                                 ErrorCode code = ErrorCode::kInvalidArgument) {
  const Shared shared{"two", {{1, 1}, {1, 1}}};
  mesh::ParallelConfig layout = layout_of(shared, mode);
  layout.own_schedule = schedule;
  const Case c{shared.name, shared.meshes, {}, false};
  return error_message(code, [&] {
    mesh::make_training_plan(layout, shared_graphs(SharedModel::kGpt), places_of(c));
  });
}

TEST(VocabularyRefusals, ASchedulesPassesMustBeThoseOfTheRun) {
  mesh::ScheduleRequest request{"1f1b", 2, kMicrobatches, 1, 0};
  request.vocabulary = VocabularyMode::kVocab2;
  const mesh::Schedule good = make_schedule(request);
  EXPECT_EQ(own_schedule_refusal(VocabularyMode::kVocab2, good), "");
  EXPECT_THAT(own_schedule_refusal(VocabularyMode::kVocab1, good),
              testing::HasSubstr("but 'vocab-1' has 2; ask for vocab-2"));
  EXPECT_THAT(own_schedule_refusal(VocabularyMode::kLast, good, ErrorCode::kInvalidConfig),
              testing::HasSubstr("is a vocabulary pass"));
  request.vocabulary = VocabularyMode::kLast;
  EXPECT_THAT(own_schedule_refusal(VocabularyMode::kVocab2, make_schedule(request)),
              testing::HasSubstr("has no passes S, but the vocabulary is 'vocab-2'"));
  for (const mesh::ActionKind kind :
       {mesh::ActionKind::kVocabularyScores, mesh::ActionKind::kVocabularyGrads,
        mesh::ActionKind::kInputForward, mesh::ActionKind::kInputBackward}) {
    mesh::Schedule incomplete = good;
    const auto at = std::ranges::find(incomplete.actors[1], kind, &mesh::Action::kind);
    incomplete.actors[1].erase(at);
    EXPECT_THAT(own_schedule_refusal(VocabularyMode::kVocab2, incomplete),
                testing::HasSubstr("actor 1: there is no " + std::string(to_string(kind)) +
                                   " of microbatch 0"));
  }
  mesh::Schedule early = good;
  const auto scores =
      std::ranges::find(early.actors[0], mesh::ActionKind::kVocabularyScores, &mesh::Action::kind);
  const auto grads =
      std::ranges::find(early.actors[0], mesh::ActionKind::kVocabularyGrads, &mesh::Action::kind);
  std::swap(*scores, *grads);
  EXPECT_THAT(own_schedule_refusal(VocabularyMode::kVocab2, early),
              testing::HasSubstr("0T0 comes before 0S0, but needs the exchange"));
}

}  // namespace
}  // namespace weft::test

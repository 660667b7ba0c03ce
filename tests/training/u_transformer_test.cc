// Master test of a U-Transformer. Skips cross one or several stages or stay in a mesh's memory.
// Each layout, schedule and lowering gives the losses of one device.

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <tuple>

#include "mesh/runtime/in_process_training.h"
#include "mesh/schedule/named_schedules.h"
#include "tests/support/small_u_transformer.h"
#include "tests/training/layouts.h"
#include "tests/training/random_pictures.h"

namespace weft::test {
namespace {

constexpr int kPictureSteps = 10;
constexpr apps::UTransformerShape kShape = kSmallUTransformer;

/// Five blocks: two levels down, the bottom, two levels up. With three stages, the outer skip
/// bypasses the middle stage.
std::vector<Case> u_transformer_cases() {
  return {{"one_device", {{1, 1}}, {5}, false},
          {"two_stages", {{1, 1}, {1, 1}}, {3, 2}, false},
          {"two_stages_unlike", {{1, 1}, {1, 1}}, {1, 4}, false},
          {"three_stages", {{1, 1}, {1, 1}, {1, 1}}, {2, 1, 2}, false},
          {"five_stages", {{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, {1, 1, 1, 1, 1}, false},
          {"two_stages_data_2", {{2, 1}, {2, 1}}, {3, 2}, true},
          {"tensor_2_to_data_2", {{1, 2}, {2, 1}}, {3, 2}, true},
          {"three_stages_mixed", {{2, 1}, {1, 2}, {2, 2}}, {2, 1, 2}, true}};
}

/// Layers of four or two stages on two meshes. The schedule's placement determines whether the
/// outer skip (block 0 to 4) and the inner one (1 to 3) go to the other mesh, stay in a mesh's
/// memory, or stay within a stage.
struct Cut {
  std::string name;
  std::vector<int> four, two;  ///< Layers per stage.
};

std::vector<Cut> cuts() {
  return {{"skips_meet", {1, 1, 1, 2}, {3, 2}}, {"skips_apart", {1, 1, 2, 1}, {2, 3}}};
}

mesh::ModelGraphs small_u_transformer(DType precision = DType::kF32) {
  const double pixels = kMicrobatches * kShape.batch * kShape.height * kShape.width;
  apps::UTransformerShape shape = kShape;
  shape.precision = precision;
  const apps::UTransformerGraph model = apps::u_transformer_graph(shape, 1 / pixels);
  return {differentiate(model.graph, model.loss), model.graph, model.loss};
}

mesh::ParallelConfig u_transformer_layout(const Case& c, const std::string& schedule,
                                          mesh::Lowering lowering) {
  mesh::ParallelConfig layout = layout_of(c, schedule, transfer::ReshardAlgorithm::kWeft);
  layout.sharding.axes.push_back({"inner", {"tensor"}});
  layout.lowering = lowering;
  return layout;
}

/// Makes a layout of two meshes with the schedule's number of stages on each.
mesh::ParallelConfig stages_layout(const Case& two_meshes, const Cut& cut,
                                   const std::string& schedule, mesh::Lowering lowering) {
  mesh::ParallelConfig layout = u_transformer_layout(two_meshes, schedule, lowering);
  const mesh::NamedSchedule& named = mesh::find_named_schedule(schedule);
  const std::vector<int>& layers = named.chunks == 2 ? cut.four : cut.two;
  layout.stages.clear();
  for (const int mesh : mesh::place_stages(named.placement, 2, named.chunks))
    layout.stages.push_back({mesh, layers[layout.stages.size()]});
  return layout;
}

std::vector<mesh::StepResult> train_u_transformer(const Case& c, const mesh::ParallelConfig& layout,
                                                  const transfer::LoopbackOptions& options = {},
                                                  DType precision = DType::kF32) {
  const mesh::TrainingPlan plan =
      mesh::make_training_plan(layout, small_u_transformer(precision), places_of(c));
  RandomPictures pictures(kShape.batch, 11);
  mesh::InProcessTraining training(plan, pictures, 7, options);
  std::vector<mesh::StepResult> results;
  for (int step = 0; step < kPictureSteps; ++step)
    results.push_back(training.run(train_step(step)));
  return results;
}

const std::vector<mesh::StepResult>& u_transformer_on_one_device() {
  static const std::vector<mesh::StepResult> results = [] {
    const Case one = u_transformer_cases().front();
    return train_u_transformer(one, u_transformer_layout(one, "gpipe", mesh::Lowering::kLanes));
  }();
  return results;
}

void expect_equal_to_one_device(const std::vector<mesh::StepResult>& results, bool reorders_sums) {
  const std::vector<mesh::StepResult>& expected = u_transformer_on_one_device();
  ASSERT_LT(expected.back().loss, expected.front().loss - 0.1);
  for (std::size_t step = 0; step < kPictureSteps; ++step) {
    if (reorders_sums) {
      EXPECT_NEAR(results[step].loss, expected[step].loss,
                  (step < 3 ? 2e-5 : 1e-3) * std::abs(expected[step].loss))
          << "step " << step;
    } else {
      EXPECT_EQ(results[step].loss, expected[step].loss) << "step " << step;
      EXPECT_EQ(results[step].grad_norm, expected[step].grad_norm) << "step " << step;
    }
  }
}

transfer::LoopbackOptions shuffled() {
  transfer::LoopbackOptions options;
  options.shuffle_seed = 3;
  return options;
}

std::string name_from(const std::string& first, const std::string& schedule,
                      mesh::Lowering lowering) {
  std::string name =
      first + "_" + schedule + (lowering == mesh::Lowering::kSafe ? "_safe" : "_lanes");
  for (char& letter : name) letter = letter == '-' ? '_' : letter;
  return name;
}

/// Expects the losses of one device. If sums are reordered, two runs must give equal bits, whatever
/// the order of arrival.
void check(const Case& c, const mesh::ParallelConfig& layout) {
  const std::vector<mesh::StepResult> results = train_u_transformer(c, layout, shuffled());
  expect_equal_to_one_device(results, c.reorders_sums);
  if (!c.reorders_sums) return;
  const std::vector<mesh::StepResult> again = train_u_transformer(c, layout);
  for (std::size_t step = 0; step < kPictureSteps; ++step) {
    EXPECT_EQ(results[step].loss, again[step].loss) << "step " << step;
    EXPECT_EQ(results[step].grad_norm, again[step].grad_norm) << "step " << step;
  }
}

class UTransformerMaster
    : public testing::TestWithParam<std::tuple<Case, std::string, mesh::Lowering>> {};

TEST_P(UTransformerMaster, LossesEqualThoseOfOneDevice) {
  const auto& [c, schedule, lowering] = GetParam();
  check(c, u_transformer_layout(c, schedule, lowering));
}

INSTANTIATE_TEST_SUITE_P(All, UTransformerMaster,
                         testing::Combine(testing::ValuesIn(u_transformer_cases()),
                                          testing::ValuesIn(mesh::one_stage_schedule_names()),
                                          testing::Values(mesh::Lowering::kLanes,
                                                          mesh::Lowering::kSafe)),
                         [](const auto& test) {
                           return name_from(std::get<0>(test.param).name, std::get<1>(test.param),
                                            std::get<2>(test.param));
                         });

/// Bf16: another order of sums rounds to a value 2^-8 away.
TEST(UTransformerInBF16, LossesEqualThoseOfOneDevice) {
  const Case one = u_transformer_cases().front();
  const auto results_of = [](const Case& c) {
    return train_u_transformer(c, u_transformer_layout(c, "1f1b", mesh::Lowering::kLanes),
                               shuffled(), DType::kBF16);
  };
  const std::vector<mesh::StepResult> expected = results_of(one);
  for (const Case& c : u_transformer_cases()) {
    const std::vector<mesh::StepResult> results = results_of(c);
    for (std::size_t step = 0; step < kPictureSteps; ++step) {
      EXPECT_NEAR(expected[step].loss, u_transformer_on_one_device()[step].loss,
                  0.02 * u_transformer_on_one_device()[step].loss)
          << "f32, step " << step;
      if (c.reorders_sums) {
        EXPECT_NEAR(results[step].loss, expected[step].loss,
                    (step < 3 ? 5e-3 : 0.02) * expected[step].loss)
            << c.name << " step " << step;
      } else {
        EXPECT_EQ(results[step].loss, expected[step].loss) << c.name << " step " << step;
        EXPECT_EQ(results[step].grad_norm, expected[step].grad_norm) << c.name << " step " << step;
      }
    }
  }
}

/// Every named schedule, with its number of stages per mesh.
class UTransformerStages
    : public testing::TestWithParam<std::tuple<Cut, std::string, mesh::Lowering>> {};

TEST_P(UTransformerStages, LossesEqualThoseOfOneDevice) {
  const auto& [cut, schedule, lowering] = GetParam();
  const Case two{"two", {{1, 1}, {1, 1}}, {1, 1}, false};
  check(two, stages_layout(two, cut, schedule, lowering));
}

TEST_P(UTransformerStages, ShardedMeshesStayWithinTheTolerance) {
  const auto& [cut, schedule, lowering] = GetParam();
  const Case sharded{"sharded", {{2, 1}, {1, 2}}, {1, 1}, true};
  check(sharded, stages_layout(sharded, cut, schedule, lowering));
}

INSTANTIATE_TEST_SUITE_P(
    All, UTransformerStages,
    testing::Combine(testing::ValuesIn(cuts()), testing::ValuesIn(mesh::schedule_names()),
                     testing::Values(mesh::Lowering::kLanes, mesh::Lowering::kSafe)),
    [](const auto& test) {
      return name_from(std::get<0>(test.param).name, std::get<1>(test.param),
                       std::get<2>(test.param));
    });

TEST(UTransformerPlan, ASkipGoesStraightToTheMeshThatUsesIt) {
  const Case three = u_transformer_cases()[3];
  const mesh::TrainingPlan plan =
      mesh::make_training_plan(layout_of(three, "1f1b", transfer::ReshardAlgorithm::kWeft),
                               small_u_transformer(), places_of(three));
  int straight = 0;
  for (const mesh::MeshEdge& edge : plan.partition.edges) {
    if (edge.pass != Pass::kForward) continue;
    if (edge.from_stage == mesh::StageId(0) && edge.to_stage == mesh::StageId(2)) ++straight;
    if (edge.to_stage != mesh::StageId(1)) continue;
    // The middle mesh receives only the tensor that it uses.
    EXPECT_EQ(plan.partition.graph.value(edge.value).name, "down1.shrink.convolution");
  }
  EXPECT_EQ(straight, 2);
}

/// Checks which skips go to the other mesh, by placement and cut.
TEST(UTransformerPlan, SkipsBetweenStagesOfOneMeshStayInItsMemory) {
  const Case two{"two", {{1, 1}, {1, 1}}, {1, 1}, false};
  const auto crossing = [&](const Cut& cut, const std::string& schedule) {
    const mesh::TrainingPlan plan =
        mesh::make_training_plan(stages_layout(two, cut, schedule, mesh::Lowering::kLanes),
                                 small_u_transformer(), places_of(two));
    std::set<std::string> skips;
    for (const mesh::MeshEdge& edge : plan.partition.edges) {
      const Value& value = plan.partition.graph.value(edge.value);
      if (edge.pass == Pass::kForward && value.name.starts_with("down") &&
          value.name.ends_with("silu"))
        skips.insert(value.name.substr(0, value.name.find('.')));
    }
    return skips;
  };
  const Cut meet = cuts()[0], apart = cuts()[1];
  EXPECT_EQ(crossing(meet, "zb-v"), (std::set<std::string>{"down1"}));
  EXPECT_EQ(crossing(apart, "zb-v"), (std::set<std::string>{}));
  EXPECT_EQ(crossing(meet, "interleaved-1f1b"), (std::set<std::string>{"down0"}));
  EXPECT_EQ(crossing(apart, "interleaved-1f1b"), (std::set<std::string>{"down0", "down1"}));
}

}  // namespace
}  // namespace weft::test

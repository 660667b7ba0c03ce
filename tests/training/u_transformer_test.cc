// The master test for a U-Transformer: its skips cross one stage or several, and every layout and schedule gives the losses of
// one device.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "apps/u_transformer_model/u_transformer_graph.h"
#include "mesh/in_process/in_process_training.h"
#include "mesh/schedules/named_schedules.h"
#include "tests/training/layouts.h"
#include "tests/training/random_pictures.h"

namespace weft::test {
namespace {

constexpr int kSteps = 10;
constexpr std::int64_t kPictures = 2;  // per microbatch
constexpr apps::UTransformerShape kShape{.height = 8,
                                         .width = 12,
                                         .classes = 3,
                                         .levels = 2,
                                         .channels = 8,
                                         .group_size = 4,
                                         .head_dim = 4,
                                         .attended_skips = 2,
                                         .batch = kPictures};

/// Five blocks: two levels down, the bottom, two levels up. With three stages the outer skip goes past the middle one.
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

mesh::ModelGraphs small_u_transformer() {
  const double pixels = static_cast<double>(kMicrobatches * kPictures * kShape.height * kShape.width);
  const apps::UTransformerGraph model = apps::u_transformer_graph(kShape, 1 / pixels);
  return {differentiate(model.graph, model.loss), model.graph, model.loss};
}

std::vector<mesh::StepResult> train(const Case& c, const std::string& schedule, transfer::LoopbackOptions options = {}) {
  mesh::LayoutConfig layout = layout_of(c, schedule, transfer::Strategy::kWeft);
  layout.sharding.axes.push_back({"inner", {"tensor"}});
  const mesh::TrainingPlan plan = mesh::make_training_plan(layout, small_u_transformer(), places_of(c));
  RandomPictures pictures(kPictures, 11);
  mesh::InProcessTraining training(plan, pictures, 7, options);
  std::vector<mesh::StepResult> results;
  for (int step = 0; step < kSteps; ++step) results.push_back(training.run(train_step(static_cast<std::uint64_t>(step))));
  return results;
}

class UTransformerMaster : public testing::TestWithParam<std::tuple<Case, std::string>> {};

TEST_P(UTransformerMaster, LossesEqualThoseOfOneDevice) {
  static const std::vector<mesh::StepResult> expected = train(u_transformer_cases().front(), "gpipe");
  ASSERT_LT(expected.back().loss, expected.front().loss - 0.1);
  const auto& [c, schedule] = GetParam();
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = 3;
  const auto results = train(c, schedule, shuffled);
  for (std::size_t step = 0; step < kSteps; ++step) {
    if (c.reorders_sums) {
      EXPECT_NEAR(results[step].loss, expected[step].loss, (step < 3 ? 2e-5 : 1e-3) * std::abs(expected[step].loss))
          << "step " << step;
    } else {
      EXPECT_EQ(results[step].loss, expected[step].loss) << "step " << step;
      EXPECT_EQ(results[step].grad_norm, expected[step].grad_norm) << "step " << step;
    }
  }
}

TEST(UTransformerPlan, ASkipGoesStraightToTheMeshThatUsesIt) {
  const Case three = u_transformer_cases()[3];
  const mesh::TrainingPlan plan =
      mesh::make_training_plan(layout_of(three, "1f1b", transfer::Strategy::kWeft), small_u_transformer(), places_of(three));
  int straight = 0;
  for (const mesh::MeshEdge& edge : plan.partition.edges) {
    if (edge.pass != Pass::kForward) continue;
    if (edge.from_stage == 0 && edge.to_stage == 2) ++straight;
    if (edge.to_stage != 1) continue;
    // Nothing goes through the middle mesh that it does not use.
    EXPECT_EQ(plan.partition.graph.value(edge.value).name, "down1.shrink.convolution");
  }
  EXPECT_EQ(straight, 2);
}

INSTANTIATE_TEST_SUITE_P(All, UTransformerMaster,
                         testing::Combine(testing::ValuesIn(u_transformer_cases()),
                                          testing::ValuesIn(mesh::one_stage_schedule_names())),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param).name + "_" + std::get<1>(test.param);
                           for (char& letter : name) letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
                           return name;
                         });

}  // namespace
}  // namespace weft::test

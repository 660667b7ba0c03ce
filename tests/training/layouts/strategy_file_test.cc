// Tests strategies of a GPT that are written to files and read again: equal texts, and programs
// that give equal bits.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "mesh/layouts/layout.h"
#include "tests/support/thrown_error.h"
#include "tests/training/layouts/gpt_on_layouts.h"

namespace weft::test {
namespace {

using ::testing::HasSubstr;

constexpr int kMicrobatches = 2;

/// Returns a plan's layout with each mesh's strategy written to text and read again.
mesh::ParallelConfig with_files(const mesh::TrainingPlan& plan) {
  mesh::ParallelConfig layout = plan.layout;
  layout.sharding = {};
  for (const mesh::MeshId id : plan.partition.meshes.ids()) {
    mesh::MeshConfig& config = layout.meshes[id.value()];
    config.layout.reset();
    config.own_strategy =
        mesh::read_strategy(mesh::write_strategy(plan, id), config.name + ".strategy");
  }
  return layout;
}

void expect_round_trip(const mesh::TrainingPlan& plan, const std::vector<LayoutMesh>& meshes,
                       const apps::GptShape& shape) {
  const mesh::ParallelConfig layout = with_files(plan);
  const mesh::TrainingPlan again =
      mesh::make_training_plan(layout, gpt_of(shape, layout.microbatches), places_on(meshes));
  EXPECT_EQ(mesh::digest_of_steps(again), mesh::digest_of_steps(plan));
  for (const mesh::MeshId id : plan.partition.meshes.ids())
    EXPECT_EQ(mesh::write_strategy(again, id), layout.meshes[id.value()].own_strategy->text);
}

std::vector<LayoutMesh> one_of_each_layout() {
  return {{"1d", {{"tensor", 2}}},
          {"1d", {{"data", 2}, {"t", 2}}},
          {"1d-sequence", {{"tensor", 4}}},
          {"2d", {{"row", 2}, {"column", 2}}},
          {"2.5d", {{"d", 2}, {"r", 2}, {"c", 2}}},
          {"3d", {{"i", 2}, {"j", 2}, {"l", 2}}},
          {"3d", {{"i", 1}, {"j", 2}, {"l", 2}}},
          {"3d", {{"data", 2}, {"i", 1}, {"j", 2}, {"l", 2}}, {}, true},
          {"fsdp", {{"data", 4}}}};
}

class StrategyFiles : public testing::TestWithParam<apps::GptShape> {};

TEST_P(StrategyFiles, OfEveryLayoutGiveTheSamePrograms) {
  std::set<std::string> names;
  for (LayoutMesh one : one_of_each_layout()) {
    names.insert(one.layout);
    for (const auto gather : {mesh::GatherFrequency::kStep, mesh::GatherFrequency::kUse}) {
      one.gather = gather;
      SCOPED_TRACE(one.layout + " gathered per " + std::string(to_string(gather)));
      // A single microbatch: gradients are sent to their storage as they are made.
      const int microbatches = gather == mesh::GatherFrequency::kStep ? kMicrobatches : 1;
      expect_round_trip(plan_on({one}, GetParam(), microbatches), {one}, GetParam());
    }
  }
  EXPECT_EQ(names.size(), mesh::layout_names().size());
}

TEST_P(StrategyFiles, OfRulesGiveTheSamePrograms) {
  for (const std::vector<MeshAxis>& axes :
       {std::vector<MeshAxis>{{"data", 2}, {"tensor", 2}}, {{"data", 4}}, {{"tensor", 2}}}) {
    const std::vector<LayoutMesh> meshes{{"", axes}};
    mesh::ParallelConfig layout = plan_on(meshes, GetParam(), kMicrobatches).layout;
    layout.sharding.axes = {
        {"batch", {"data"}}, {"heads", {"tensor"}}, {"mlp", {"tensor"}}, {"vocab", {"tensor"}}};
    expect_round_trip(
        mesh::make_training_plan(layout, gpt_of(GetParam(), kMicrobatches), places_on(meshes)),
        meshes, GetParam());
  }
}

TEST_P(StrategyFiles, OfStagesOnSeveralMeshesGiveTheSamePrograms) {
  const std::vector<LayoutMesh> meshes{{"3d", {{"i", 2}, {"j", 2}, {"l", 2}}},
                                       {"1d", {{"tensor", 2}}}};
  expect_round_trip(plan_on(meshes, GetParam(), kMicrobatches), meshes, GetParam());
}

std::vector<apps::GptShape> shapes() {
  apps::GptShape tied = gpt_shape(2), bf16 = gpt_shape(2);
  tied.tied_embeddings = true;
  bf16.precision = DType::kBF16;
  for (apps::GptShape* shape : {&tied, &bf16}) shape->batch = 8, shape->heads = 4;
  return {tied, bf16};
}
INSTANTIATE_TEST_SUITE_P(Gpt, StrategyFiles, testing::ValuesIn(shapes()),
                         [](const auto& shape) { return shape.index == 0 ? "tied" : "bf16"; });

TEST(StrategyFile, AnEditedFileIsRefusedAtTheEditedLine) {
  const std::vector<LayoutMesh> meshes{{"2d", {{"r", 2}, {"c", 2}}}};
  const apps::GptShape shape = gpt_shape(2);
  const mesh::ParallelConfig good = with_files(plan_on(meshes, shape, kMicrobatches));
  const auto refused = [&](const std::string& from, const std::string& to) {
    mesh::ParallelConfig layout = good;
    std::string text = layout.meshes[0].own_strategy->text;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
    text.replace(at, from.size(), to);
    return error_of([&] {
             layout.meshes[0].own_strategy = mesh::read_strategy(text, "mine.strategy");
             mesh::make_training_plan(layout, gpt_of(shape, kMicrobatches), places_on(meshes));
           })
        .message();
  };
  EXPECT_THAT(refused("splits residual=2 hidden=2 rows=1\n", ""), HasSubstr("mine.strategy:"));
  EXPECT_THAT(refused("r=2 c=2", "r=2 c=4"),
              HasSubstr("mine.strategy:2:6: this strategy is for a mesh of r=2 c=4"));
  EXPECT_THAT(refused("home h0.", "home g0."), HasSubstr("did you mean 'h0."));
}

/// Replaces a third of the text's homes: each mesh axis splits a random dimension or none.
std::string with_random_homes(const std::string& text, const std::vector<std::string>& axes,
                              std::mt19937& random) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line); result += line + "\n") {
    if (!line.starts_with("home ") || random() % 3 != 0) continue;
    const std::size_t open = line.find('[');
    if (line.find(".moments") != std::string::npos || line.find("qkv") != std::string::npos ||
        line.find("attention") != std::string::npos)
      continue;  // These have dimensions of 2 or 3, which are rarely divisible.
    std::vector<std::string> dims(1 + std::count(line.begin() + open, line.end(), ','));
    for (const std::string& axis : axes) {
      std::string& dim = dims[random() % dims.size()];
      if (random() % 2 == 0) dim += (dim.empty() ? "" : "+") + axis;
    }
    line.resize(open);
    for (const std::string& dim : dims)
      line += (&dim == &dims.front() ? "[" : ",") + (dim.empty() ? "-" : dim);
    line += "]";
  }
  return result;
}

TEST(StrategyFile, WithHomesOfAnyKindTrainsTheSame) {
  const std::vector<LayoutMesh> meshes{{"3d", {{"i", 2}, {"j", 2}, {"l", 2}}}};
  apps::GptShape shape = gpt_shape(2);
  // Every dimension is divisible by 8, however it is split.
  shape.batch = shape.heads = 8;
  shape.width = shape.vocabulary = 64;
  const mesh::ParallelConfig good = with_files(plan_on(meshes, shape, kMicrobatches));
  const auto losses_of = [&](const mesh::ParallelConfig& layout) {
    RandomBatches batches({shape.batch, shape.vocabulary, 11});
    const mesh::TrainingPlan plan =
        mesh::make_training_plan(layout, gpt_of(shape, kMicrobatches), places_on(meshes));
    mesh::InProcessTraining training(plan, batches, 7);
    std::vector<double> losses;
    for (int step = 0; step < 3; ++step) losses.push_back(training.run(train_step(step)).loss);
    return losses;
  };
  const std::vector<double> expected = losses_of(good);
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    mesh::ParallelConfig layout = good;
    std::string& text = layout.meshes[0].own_strategy->text;
    text = with_random_homes(text, {"i", "j", "l"}, random);
    const std::vector<double> losses = losses_of(layout);
    for (std::size_t step = 0; step < losses.size(); ++step)
      EXPECT_NEAR(losses[step], expected[step], 1e-5 * expected[step]) << text;
  }
}

TEST(StrategyFile, AFileOfAnotherModelIsRefused) {
  const std::vector<LayoutMesh> meshes{{"1d", {{"tensor", 2}}}};
  const mesh::ParallelConfig layout = with_files(plan_on(meshes, gpt_shape(2), kMicrobatches));
  mesh::ParallelConfig larger = layout;
  larger.stages[0].layers = 6;
  EXPECT_THAT(error_of([&] {
                mesh::make_training_plan(larger, gpt_of(gpt_shape(2, 6), kMicrobatches),
                                         places_on(meshes));
              }).message(),
              HasSubstr("has no home; say how it is kept"));
  mesh::ParallelConfig smaller = with_files(plan_on(meshes, gpt_shape(2, 6), kMicrobatches));
  smaller.stages[0].layers = 1;
  EXPECT_THAT(error_of([&] {
                mesh::make_training_plan(smaller, gpt_of(gpt_shape(2, 1), kMicrobatches),
                                         places_on(meshes));
              }).message(),
              HasSubstr("this strategy is for another graph"));
}

}  // namespace
}  // namespace weft::test

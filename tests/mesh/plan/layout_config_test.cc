#include "mesh/plan/layout_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/config_document.h"
#include "mesh/plan/training_plan.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

constexpr const char* kGood = R"(meshes:
  front: {hosts: [a], shape: {data: 1, tensor: 2}}
  back: {hosts: [b], shape: {data: 2, tensor: 1}}
sharding: {batch: data, heads: [tensor]}
pipeline:
  stages: [{mesh: front, layers: 2}, {mesh: back, layers: 1}]
  schedule: 1f1b
  microbatches: 4
  resharding: send_recv
)";

LayoutConfig parse(const std::string& text) {
  ConfigDocument document = ConfigDocument::parse(text, "run.yaml");
  return parse_layout(document.root());
}

std::string error_of(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  try {
    parse(text);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(LayoutConfig, ReadsMeshesShardingAndPipeline) {
  const LayoutConfig layout = parse(kGood);
  EXPECT_EQ(layout.meshes[1].axes, (std::vector<MeshAxis>{{"data", 2}, {"tensor", 1}}));
  EXPECT_EQ(layout.stage_of_layer(), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(layout.schedule, "1f1b");
  EXPECT_EQ(layout.resharding, transfer::Strategy::kSendRecv);
}

TEST(LayoutConfig, AMeshThatDoesNotExistIsNamedWithTheNearest) {
  EXPECT_THAT(error_of(kGood, "mesh: front", "mesh: frnt"), HasSubstr("run.yaml:6:"));
  EXPECT_THAT(error_of(kGood, "mesh: front", "mesh: frnt"), HasSubstr("there is no mesh 'frnt'; did you mean 'front'?"));
}

TEST(LayoutConfig, AnUnknownKeyIsNamedWithTheNearest) {
  EXPECT_THAT(error_of(kGood, "microbatches", "microbatchs"), HasSubstr("did you mean 'microbatches'?"));
}

TEST(LayoutConfig, AnUnknownAxisIsNamed) {
  EXPECT_THAT(error_of(kGood, "batch: data", "batch: date"), HasSubstr("no mesh has an axis 'date'"));
}

TEST(LayoutConfig, MistakesInTwoSectionsAreToldTogether) {
  std::string text = kGood;
  text.replace(text.find("batch: data"), 11, "batch: date");
  const std::string problems = error_of(text, "microbatches", "microbatchs");
  EXPECT_THAT(problems, HasSubstr("no mesh has an axis 'date'"));
  EXPECT_THAT(problems, HasSubstr("did you mean 'microbatches'?"));
}

TEST(LayoutConfig, AMeshWithoutAStageIsRefused) {
  EXPECT_THAT(error_of(kGood, ", {mesh: back, layers: 1}", ""), HasSubstr("mesh 'back' has no stage"));
}

TEST(LayoutConfig, TwoStagesOnOneMeshAreRefused) {
  EXPECT_THAT(error_of(kGood, "mesh: back", "mesh: front"), HasSubstr("has a stage already"));
}

TEST(LayoutConfig, AnUnknownScheduleListsTheKnownOnes) {
  EXPECT_THAT(error_of(kGood, "schedule: 1f1b", "schedule: 1f2b"), HasSubstr("eager-1f1b"));
}

TEST(LayoutConfig, AScheduleWithSeveralStagesPerMeshSaysWhatRuns) {
  EXPECT_THAT(
      error_of(kGood, "schedule: 1f1b", "schedule: zb-v"),
      HasSubstr(
          "'zb-v' puts 2 stages on every mesh, which can be simulated (weft schedule simulate zb-v) but not run yet; those that "
          "run: gpipe, 1f1b, eager-1f1b, zb-h1, zb-h2"));
  EXPECT_EQ(parse(std::string(kGood).replace(std::string(kGood).find("1f1b"), 4, "zb-h1")).schedule, "zb-h1");
}

TEST(PlanPlaces, AMeshThatDoesNotFitShowsTheHosts) {
  try {
    plan_places(parse(kGood), {{"a", 1}, {"b", 2}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("mesh 'front'"));
    EXPECT_THAT(error.message(), HasSubstr("does not fit"));
  }
}

}  // namespace
}  // namespace weft::mesh

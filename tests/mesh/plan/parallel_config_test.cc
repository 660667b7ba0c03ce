#include "mesh/plan/parallel_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/config/config_document.h"
#include "mesh/plan/schedule_choice.h"
#include "mesh/plan/training_plan.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

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

ParallelConfig parse(const std::string& text) {
  ConfigDocument document = ConfigDocument::parse(text, "run.yaml");
  return parse_layout(document.root());
}

std::string error_of(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return test::error_message(ErrorCode::kInvalidConfig, [&] { parse(text); });
}

TEST(ParallelConfig, ReadsMeshesShardingAndPipeline) {
  const ParallelConfig layout = parse(kGood);
  EXPECT_EQ(layout.meshes[1].axes, (std::vector<MeshAxis>{{"data", 2}, {"tensor", 1}}));
  EXPECT_EQ(layout.stage_of_layer(), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(layout.schedule, "1f1b");
  EXPECT_EQ(layout.resharding, transfer::ReshardAlgorithm::kSendRecv);
}

TEST(ParallelConfig, AMeshThatDoesNotExistIsNamedWithTheNearest) {
  EXPECT_THAT(error_of(kGood, "mesh: front", "mesh: frnt"), HasSubstr("run.yaml:6:"));
  EXPECT_THAT(error_of(kGood, "mesh: front", "mesh: frnt"),
              HasSubstr("there is no mesh 'frnt'; did you mean 'front'?"));
}

TEST(ParallelConfig, AnUnknownKeyIsNamedWithTheNearest) {
  EXPECT_THAT(error_of(kGood, "microbatches", "microbatchs"),
              HasSubstr("did you mean 'microbatches'?"));
}

TEST(ParallelConfig, NamesBecomePathsSoTheyMustBePlain) {
  EXPECT_THAT(error_of(kGood, "front: {hosts", "../../../esc: {hosts"),
              HasSubstr("a mesh's name: expected a name of at most 100 letters, digits, '_', '-' "
                        "and '.' that does not begin with "
                        "'-' or '.', found '../../../esc'"));
  EXPECT_THAT(error_of(kGood, "data: 1", "da/ta: 1"),
              HasSubstr("an axis' name: expected a name of at most 100 letters"));
}

TEST(ParallelConfig, AnUnknownAxisIsNamed) {
  EXPECT_THAT(error_of(kGood, "batch: data", "batch: date"),
              HasSubstr("no mesh has an axis 'date'"));
}

TEST(ParallelConfig, MistakesInTwoSectionsAreReportedTogether) {
  std::string text = kGood;
  text.replace(text.find("batch: data"), 11, "batch: date");
  const std::string problems = error_of(text, "microbatches", "microbatchs");
  EXPECT_THAT(problems, HasSubstr("no mesh has an axis 'date'"));
  EXPECT_THAT(problems, HasSubstr("did you mean 'microbatches'?"));
}

TEST(ParallelConfig, AnUnreadableMeshCausesNoFurtherErrors) {
  EXPECT_EQ(error_of(kGood, "{data: 1, tensor: 2}", "{data:1}"),
            "run.yaml:2:37: meshes.front.shape.data:1: expected a whole number from 1 to 4096, "
            "found nothing; put a space after the "
            "colon");
}

TEST(ParallelConfig, AMeshOfHugeSizesIsRefusedByItsKey) {
  EXPECT_THAT(
      error_of(kGood, "{data: 1, tensor: 2}", "{data: 4096, tensor: 4096}"),
      HasSubstr("meshes.front.shape: a mesh has at most 65536 devices; its axes multiply to more"));
  EXPECT_THAT(error_of(kGood, "{data: 1, tensor: 2}", "{data: 9223372036854775807, tensor: 2}"),
              HasSubstr("meshes.front.shape.data: expected a whole number from 1 to 4096"));
}

TEST(ParallelConfig, AMeshWithoutAStageIsRefused) {
  EXPECT_THAT(error_of(kGood, ", {mesh: back, layers: 1}", ""),
              HasSubstr("mesh 'back' has no stage"));
}

TEST(ParallelConfig, AMeshMayHaveSeveralStages) {
  std::string text = kGood;
  text.replace(text.find("{mesh: back, layers: 1}"), 23,
               "{mesh: back, layers: 1}, {mesh: front, layers: 3}");
  const ParallelConfig layout = parse(text);
  EXPECT_EQ(layout.mesh_of_stage(), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(layout.stage_of_layer(), (std::vector<int>{0, 0, 1, 2, 2, 2}));
}

TEST(ParallelConfig, ReadsTheLowering) {
  EXPECT_EQ(parse(kGood).lowering, Lowering::kLanes);
  std::string text = kGood;
  text.replace(text.find("schedule: 1f1b"), 14, "schedule: 1f1b\n  lowering: safe");
  EXPECT_EQ(parse(text).lowering, Lowering::kSafe);
}

TEST(ParallelConfig, AScheduleMayComeFromAFile) {
  const test::ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "mine.csv";
  std::ofstream(path) << "# name: mine\n0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  std::string text = kGood;
  text.replace(text.find("1f1b"), 4, path.string());
  const ParallelConfig layout = parse(text);
  ASSERT_TRUE(layout.own_schedule.has_value());
  EXPECT_EQ(layout.own_schedule->name, "mine");
  EXPECT_EQ(layout.own_schedule->microbatches, 2);
  EXPECT_THAT(error_of(kGood, "1f1b", "none.csv"), HasSubstr("there is no schedule file"));
}

TEST(ParallelConfig, AStrategyMayComeFromAFile) {
  const test::ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "mine.strategy";
  std::ofstream(path) << "weft-strategy 1\nmesh front data=1 tensor=2\nsplits hidden=2\n";
  std::string text = kGood;
  text.replace(text.find("sharding: {batch: data, heads: [tensor]}\n"), 41, "");
  const std::string from = "tensor: 2}}", file = "tensor: 2}, layout: " + path.string() + "}";
  std::string with_file = text;
  with_file.replace(with_file.find(from), from.size(), file);
  const ParallelConfig layout = parse(with_file);
  ASSERT_TRUE(layout.meshes[0].own_strategy.has_value());
  EXPECT_EQ(layout.meshes[0].own_strategy->source, path.string());
  EXPECT_EQ(layout.meshes[0].own_strategy->splits.hidden, 2);
  EXPECT_FALSE(layout.meshes[0].layout.has_value());
  EXPECT_THAT(error_of(text, from, "tensor: 2}, layout: none.strategy}"),
              HasSubstr("there is no strategy file"));
  EXPECT_THAT(
      error_of(text, from, "tensor: 2}, layout: {name: " + path.string() + ", gather: use}}"),
      HasSubstr("meshes.front.layout.name: a strategy file takes no further keys"));
  EXPECT_THAT(error_of(text, from, "tensor: 2}, layout: 3e}"),
              HasSubstr("there is no layout '3e', only 1d"));
  // The rules apply to the other mesh. If each mesh has a layout, rules are an error.
  EXPECT_EQ(error_of(kGood, from, file), "");
  std::string both = kGood;
  both.replace(both.find(from), from.size(), file);
  EXPECT_THAT(error_of(both, "tensor: 1}}", "tensor: 1}, layout: 1d}"),
              HasSubstr("every mesh has a layout, which says how tensors are split"));
  std::ofstream(path) << "weft-strategy 1\nmash front\n";
  EXPECT_THAT(error_of(text, from, file), HasSubstr("mine.strategy:2:1: unknown keyword 'mash'"));
}

TEST(ParallelConfig, ASearchedScheduleAndACapOnMemory) {
  EXPECT_FALSE(parse(kGood).searches());
  EXPECT_FALSE(parse(kGood).memory.has_value());
  std::string text = kGood;
  text.replace(text.find("schedule: 1f1b"), 14, "schedule: auto\n  memory: 1.5GiB");
  const ParallelConfig layout = parse(text);
  EXPECT_TRUE(layout.searches());
  EXPECT_EQ(layout.memory, 3u << 29);
  EXPECT_THAT(error_of(kGood, "schedule: 1f1b", "memory: 2"),
              HasSubstr("expected a size with its unit"));
}

TEST(ParallelConfig, ActorsCountInTheOrderOfTheirFirstStages) {
  ParallelConfig layout = parse(kGood);
  layout.stages = {{1, 1}, {0, 1}, {1, 1}};
  EXPECT_EQ(actor_of_stage(layout), (std::vector<int>{0, 1, 0}));
}

TEST(ParallelConfig, AnUnknownScheduleListsTheKnownOnes) {
  EXPECT_THAT(error_of(kGood, "schedule: 1f1b", "schedule: 1f2b"), HasSubstr("eager-1f1b"));
}

TEST(ParallelConfig, SchedulesWithSeveralStagesPerMeshAreKnown) {
  for (const char* name : {"zb-v", "zb-h1", "interleaved-1f1b"}) {
    EXPECT_EQ(parse(std::string(kGood).replace(std::string(kGood).find("1f1b"), 4, name)).schedule,
              name);
  }
}

TEST(PlanPlaces, AMeshThatDoesNotFitShowsTheHosts) {
  EXPECT_THAT(
      [&] {
        predict_places(parse(kGood), {{"a", 1}, {"b", 2}});
      },
      test::throws_error(ErrorCode::kResourceExhausted, "mesh 'front'", "does not fit"));
}

}  // namespace
}  // namespace weft::mesh

#include "mesh/layouts/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/ops/graph_builder.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

/// Builds one transformer block without attention: norm, expand, contract, and a loss.
TrainingGraph block(std::int64_t batch = 8, std::int64_t width = 16) {
  GraphBuilder b;
  const ValueId ids = b.input("ids", {DType::kI32, {batch, 4}}, {"batch", "sequence"});
  const ValueId targets = b.input("targets", {DType::kI32, {batch, 4}}, {"batch", "sequence"});
  ValueId x = b.embedding(b.parameter("table", {32, width}, normal(0.02), {"vocab", "embed"}), ids);
  const ValueId gamma = b.parameter("gamma", {width}, ones(), {"embed"}, false);
  const ValueId beta = b.parameter("beta", {width}, zeros(), {"embed"}, false);
  const ValueId h = b.linear(b.layer_norm(x, gamma, beta),
                             b.parameter("expand", {width, 64}, normal(0.02), {"embed", "mlp"}),
                             b.parameter("expand_bias", {64}, zeros(), {"mlp"}, false));
  x = b.add(
      x, b.linear(b.gelu(h), b.parameter("contract", {64, width}, normal(0.02), {"mlp", "embed"})));
  const ValueId logits =
      b.linear(x, b.parameter("head", {width, 32}, normal(0.02), {"embed", "vocab"}));
  return differentiate(b.graph(), b.cross_entropy(logits, targets, 1.0 / 32));
}

DeviceMesh mesh_of(std::vector<MeshAxis> axes) {
  std::int64_t size = 1;
  for (const MeshAxis& axis : axes) size *= axis.size;
  std::vector<transfer::DeviceId> devices;
  for (std::int64_t i = 0; i < size; ++i) devices.emplace_back(i);
  return DeviceMesh("m", std::move(axes), devices);
}

/// Sharding strategy of a layout, with its graph and mesh.
struct LaidOut {
  DeviceMesh mesh;
  TrainingGraph model;
  ShardingStrategy strategy;

  LaidOut(const LayoutChoice& choice, std::vector<MeshAxis> axes, const TrainingGraph& of = block())
      : mesh(mesh_of(std::move(axes))) {
    model = split_graph(of, {feature_splits(choice, mesh)});
    std::vector<NodeId> nodes;
    for (std::size_t i = 0; i < model.graph.nodes().size(); ++i) nodes.emplace_back(i);
    strategy = layout_strategy({model.graph, mesh, nodes}, choice);
  }

  std::string home(const std::string& name) const {
    for (const auto& [value, spec] : strategy.storage_specs)
      if (model.graph.value(value).name == name) return to_string(spec, mesh);
    return "none";
  }
};

TEST(Layouts, KeepParametersAndActivationsAsTheirPapersSay) {
  const LaidOut cube({"3d", {}}, {{"i", 2}, {"j", 2}, {"l", 2}});
  EXPECT_EQ(cube.home("expand"), "[l+i,j]");
  EXPECT_EQ(cube.home("contract"), "[j+i,l]");
  EXPECT_EQ(cube.home("expand_bias"), "[j+i+l]");
  EXPECT_EQ(cube.home("embedding"), "[i+j,-,l]");
  EXPECT_EQ(cube.home("gelu"), "[i+l,-,j]");
  const LaidOut square({"2d", {}}, {{"row", 2}, {"column", 2}});
  EXPECT_EQ(square.home("expand"), "[row,column]");
  EXPECT_EQ(square.home("contract"), "[row,column]");
  EXPECT_EQ(square.home("gelu"), "[row,-,column]");
  const LaidOut squares({"2.5d", {}}, {{"d", 2}, {"r", 2}, {"c", 2}});
  EXPECT_EQ(squares.home("expand"), "[r+d,c]");
  EXPECT_EQ(squares.home("gelu"), "[d+r,-,c]");
  const LaidOut tensor({"1d", {}}, {{"tensor", 4}});
  EXPECT_EQ(tensor.home("expand"), "[-,tensor]");
  EXPECT_EQ(tensor.home("contract"), "[tensor,-]");
  EXPECT_EQ(tensor.home("gamma"), "[-]");
  EXPECT_EQ(tensor.home("embedding"), "[-,-,-]");
  EXPECT_EQ(LaidOut({"1d-sequence", {}}, {{"tensor", 4}}).home("embedding"), "[tensor,-,-]");
  EXPECT_EQ(LaidOut({"fsdp", {}}, {{"data", 4}}).home("expand"), "[data,-]");
}

TEST(Layouts, SplitSequencesWhereTheBatchDoesNotDivide) {
  EXPECT_EQ(LaidOut({"1d-sequence", {}}, {{"tensor", 4}}, block(2)).home("embedding"),
            "[-,tensor,-]");
}

TEST(Layouts, ADataAxisSplitsTokensAndWeightsOnlyIfItIsTo) {
  LayoutChoice choice{"1d", {}};
  EXPECT_EQ(LaidOut(choice, {{"data", 2}, {"tensor", 2}}).home("gelu"), "[data,-,tensor]");
  EXPECT_EQ(LaidOut(choice, {{"data", 2}, {"tensor", 2}}).home("expand"), "[-,tensor]");
  choice.shard_data = true;
  EXPECT_EQ(LaidOut(choice, {{"data", 2}, {"tensor", 2}}).home("expand"), "[data,tensor]");
}

TEST(Layouts, AxesTakeTheGivenRoles) {
  const LayoutChoice choice{"3d",
                            {{Role::kWeight, "a"}, {Role::kInput, "b"}, {Role::kOutput, "c"}}};
  EXPECT_EQ(LaidOut(choice, {{"a", 2}, {"b", 2}, {"c", 2}}).home("expand"), "[c+a,b]");
}

TEST(Layouts, GradientsOfParametersStayAsTheirOpsMakeThem) {
  for (const auto gather : {GatherFrequency::kStep, GatherFrequency::kUse}) {
    LayoutChoice choice{"3d", {}};
    choice.gather = gather;
    const LaidOut laid_out(choice, {{"i", 2}, {"j", 2}, {"l", 2}});
    for (const Gradient& gradient : laid_out.model.gradients)
      EXPECT_FALSE(laid_out.strategy.storage_specs.contains(gradient.gradient));
  }
}

std::string refused(const LayoutChoice& choice, std::vector<MeshAxis> axes,
                    const TrainingGraph& model = block()) {
  const Error error = test::error_of([&] { LaidOut(choice, std::move(axes), model); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidConfig);
  EXPECT_EQ(error.where(), "layout");
  return error.message();
}

TEST(Layouts, ImpossibleMeshesAreRefusedWithAdvice) {
  EXPECT_THAT(refused({"4d", {}}, {{"i", 2}}), HasSubstr("there is no layout '4d', only rules"));
  EXPECT_THAT(refused({"3d", {}}, {{"i", 2}, {"j", 2}}),
              HasSubstr("no axis has the role 'output'; name one 'output' or 'l'"));
  EXPECT_THAT(refused({"1d", {}}, {{"tensor", 2}, {"x", 2}}),
              HasSubstr("axis 'x' has no role; name it after one (tensor, data)"));
  EXPECT_THAT(refused({"2d", {{Role::kRow, "r"}, {Role::kColumn, "r"}}}, {{"r", 2}}),
              HasSubstr("axis 'r' cannot be row and column"));
  EXPECT_THAT(refused({"1d", {{Role::kDepth, "tensor"}}}, {{"tensor", 2}}),
              HasSubstr("layout '1d' has no role 'depth'"));
  EXPECT_THAT(refused({"1d", {{Role::kTensor, "t"}}}, {{"tensor", 2}}),
              HasSubstr("has no axis 't'"));
  EXPECT_THAT(refused({"3d", {}}, {{"i", 2}, {"j", 2}, {"l", 2}}, block(6)),
              HasSubstr("a microbatch has 6 rows, which is no multiple of that; use 8 rows"));
  EXPECT_THAT(
      refused({"2d", {}}, {{"r", 3}, {"c", 2}}),
      HasSubstr("has 8 elements, which r splits 3 ways; the next number that divides is 9"));
  EXPECT_THAT(refused({"2d", {}}, {{"r", 2}, {"c", 3}}),
              HasSubstr("a layer norm's width of 16 cannot be split evenly 3 ways; the next width "
                        "that can is 18"));
}

}  // namespace
}  // namespace weft::mesh

// Tests that input gradients are reduced during the weight gradient's product, read from compiled
// programs, and the costs of stages with layouts.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "mesh/costs/plan_costs.h"
#include "tests/training/layouts/gpt_on_layouts.h"

namespace weft::test {
namespace {

bool is_input_grad(OpKind kind) {
  return kind == OpKind::kLinearInputGrad || kind == OpKind::kLinearInputGradGelu;
}
bool is_weight_grad(OpKind kind) {
  return kind == OpKind::kLinearWeightGrad || kind == OpKind::kLinearWeightGradSum;
}

/// Counts of input gradient reductions: all, and those during which the same linear's weight
/// gradient is computed.
struct Reductions {
  int all = 0, behind = 0;
};

Reductions reductions_of(const mesh::Program& program) {
  Reductions result;
  std::optional<std::uint32_t> dx, dy;  // output and input of the latest input gradient op
  struct UnderWay {
    std::uint32_t handle = 0, dy = 0;
    bool product_has_run = false;
  };
  std::vector<UnderWay> under_way;
  for (const mesh::Instruction& instruction : program.instructions) {
    if (const auto* run = std::get_if<mesh::Run>(&instruction)) {
      const OpKind kind = program.ops[run->op].kind;
      if (is_input_grad(kind)) {
        dx = run->outputs.front();
        dy = run->inputs.front();
      }
      if (!is_weight_grad(kind)) continue;
      for (UnderWay& transfer : under_way)
        if (run->inputs[1] == transfer.dy) transfer.product_has_run = true;
    } else if (const auto* start = std::get_if<mesh::Start>(&instruction)) {
      const mesh::Transfer& transfer = program.transfers[start->transfer];
      const bool reduces =
          transfer.name.starts_with("all-reduce") || transfer.name.starts_with("reduce-scatter");
      if (!reduces || !dx || start->source != static_cast<std::int32_t>(*dx)) continue;
      ++result.all;
      under_way.push_back({start->handle, *dy});
    } else if (const auto* wait = std::get_if<mesh::Wait>(&instruction)) {
      const auto found = std::ranges::find(under_way, wait->handle, &UnderWay::handle);
      if (found == under_way.end()) continue;
      result.behind += found->product_has_run ? 1 : 0;
      under_way.erase(found);
    }
  }
  return result;
}

TEST(Overlap, InputGradientsAreReducedBehindTheWeightGradientsProduct) {
  for (const LayoutMesh& on :
       {LayoutMesh{"1d", {{"tensor", 2}}}, LayoutMesh{"1d-sequence", {{"tensor", 2}}},
        LayoutMesh{"2d", {{"r", 2}, {"c", 2}}}, LayoutMesh{"3d", {{"i", 2}, {"j", 2}, {"l", 2}}}}) {
    SCOPED_TRACE(on.layout);
    const int layers = 2, microbatches = 2;
    const mesh::TrainingPlan plan = plan_on({on}, gpt_shape(2, layers), microbatches);
    const Reductions found = reductions_of(plan.train.programs.front());
    // In 1d, only expanding linears reduce; in other layouts, contracting ones too. The output
    // layer always does.
    const int linears = (on.layout.starts_with("1d") ? 2 : 4) * layers + 1;
    EXPECT_EQ(found.all, linears * microbatches);
    EXPECT_EQ(found.behind, found.all);
  }
}

TEST(StageCosts, CountAGatherOfTheWholeStepOnce) {
  LayoutMesh cube{"3d", {{"i", 2}, {"j", 2}, {"l", 2}}};
  const int microbatches = 4;
  const auto forward = [&](mesh::GatherFrequency gather) {
    cube.gather = gather;
    const mesh::TrainingPlan plan = plan_on({cube}, gpt_shape(2, 1), microbatches);
    const auto free = [](const Op&, std::span<const TensorType>) { return 0.0; };
    return plan_costs(plan, free).stages.front().forward;
  };
  const double often = forward(mesh::GatherFrequency::kMicrobatch),
               once = forward(mesh::GatherFrequency::kStep);
  EXPECT_LT(once, often);
  EXPECT_GT(once, often / microbatches);
}

}  // namespace
}  // namespace weft::test

#include "tests/contract/sizes/sized_ops.h"

#include <algorithm>
#include <map>

#include "tests/bench/training_step/step_model.h"
#include "tests/bench/training_step/step_plan.h"

namespace weft::test {

std::vector<SizedOp> ops_of_model(const std::string& model, std::int64_t batch) {
  const mesh::TrainingPlan plan = step_plan(make_step_model(model, batch, DType::kBF16));
  std::vector<SizedOp> ops;
  std::map<std::string, int> number;
  for (const StepOp& op : ops_of_step(plan.train.programs.front())) {
    if (op.call != StepOp::Call::kRun || op.op.kind == OpKind::kToBF16 ||
        op.op.kind == OpKind::kToF32)
      continue;
    const std::string name = model + "__" + op.name();
    ops.push_back({model, batch, op, name + "_" + std::to_string(++number[name])});
  }
  return ops;
}

std::vector<std::vector<std::byte>> data_of(const SizedOp& op) {
  std::vector<std::vector<std::byte>> contents(op.op.inputs.size());
  if (std::ranges::all_of(op.op.data, [](const std::string& name) { return name.empty(); }))
    return contents;
  const StepModel model = make_step_model(op.model, op.batch, DType::kBF16);
  const std::vector<std::vector<std::byte>> inputs = step_inputs(model, 1, 0);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    for (std::size_t input = 0; input < inputs.size(); ++input) {
      if (model.graph.value(model.inputs[input]).name == op.op.data[i]) contents[i] = inputs[input];
    }
  }
  return contents;
}

std::optional<SavedByForward> saved_by_forward(const Op& op) {
  switch (op.kind) {
    case OpKind::kAttentionGrad: return {{{OpKind::kAttention, op.attributes}, 1}};
    case OpKind::kCrossAttentionGrad: return {{{OpKind::kCrossAttention, op.attributes}, 3}};
    default: return std::nullopt;
  }
}

}  // namespace weft::test

// Placeholder for any part of a model. It declares the sizes of its tensors and its run time, and
// computes nothing. Only emulated devices run it (core/device).
//
// emulated_block(x_1[R, ...], ..., x_n[R, ...], w[N]; seconds, input_grad_seconds,
//                weight_grad_seconds, rank, d1, d2, ..., saved)
//   -> y[R, d1, d2, ...], and if saved > 0 also kept[R, saved]: tensor that backward needs besides
//      the inputs. Both in the element type of w, f32 or bf16.
// emulated_input_grad(dy, kept?, x_1, ..., x_k; seconds, kept)
//   -> dx_1, ..., dx_k, for the inputs that need a gradient.
// emulated_weight_grad(dy, kept?, x_1, ..., x_n; seconds, weights) -> dw f32[N].
//
// Rows R may be split over devices. `seconds` is the time of each device for its part, however the
// op is split.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

std::vector<TensorType> infer_emulated_block(const Op& op, std::span<const TensorType> inputs) {
  require(inputs.size() >= 2, op, inputs, "it needs at least one input and its weights");
  const TensorType& weights = inputs.back();
  require(
      (weights.dtype == DType::kF32 || weights.dtype == DType::kBF16) && weights.shape.size() == 1,
      op, inputs, "the weights must be f32 or bf16 of one dimension");
  require(!inputs[0].shape.empty(), op, inputs, "every input must have rows");
  const std::int64_t rows = inputs[0].shape[0];
  for (const TensorType& input : inputs.first(inputs.size() - 1)) {
    require(!input.shape.empty() && input.shape[0] == rows, op, inputs,
            "all inputs must have the same rows");
  }
  Shape shape{rows};
  for (std::int64_t d = 1; d < op.integer("rank"); ++d)
    shape.push_back(op.integer("d" + std::to_string(d)));
  std::vector<TensorType> outputs{{weights.dtype, shape}};
  if (const std::int64_t saved = op.integer("saved"); saved > 0)
    outputs.push_back({weights.dtype, {rows, saved}});
  return outputs;
}

std::vector<TensorType> infer_emulated_input_grad(const Op& op,
                                                  std::span<const TensorType> inputs) {
  const std::size_t first = 1 + op.integer("kept");
  require(inputs.size() > first, op, inputs, "it needs the gradient and at least one input");
  return {inputs.begin() + first, inputs.end()};
}

std::vector<TensorType> infer_emulated_weight_grad(const Op& op,
                                                   std::span<const TensorType> inputs) {
  require(!inputs.empty(), op, inputs, "it needs the gradient");
  return {{DType::kF32, {op.integer("weights")}}};
}

/// Returns the signature in which dimension 0 of all tensors except weights is the rows, with kind
/// `rows`, and no other dimension can be split.
FactorSignature split_by_rows(std::span<const TensorType> inputs,
                              const std::vector<TensorType>& outputs, FactorKind rows,
                              bool last_input_is_weights, bool output_is_weights) {
  FactorSignature result;
  result.factors.push_back({rows, inputs[0].shape[0]});
  const auto dims = [&](const TensorType& type, bool weights) {
    std::vector<int> factors;
    for (std::size_t d = 0; d < type.shape.size(); ++d) {
      if (d == 0 && !weights) {
        factors.push_back(0);
        continue;
      }
      factors.push_back(result.factors.size());
      result.factors.push_back({FactorKind::kWhole, type.shape[d]});
    }
    return factors;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    result.inputs.push_back(dims(inputs[i], last_input_is_weights && i + 1 == inputs.size()));
  }
  for (const TensorType& output : outputs)
    result.outputs.push_back(dims(output, output_is_weights));
  return result;
}

FactorSignature emulated_block_signature(const Op& op, std::span<const TensorType> inputs) {
  return split_by_rows(inputs, infer_emulated_block(op, inputs), FactorKind::kParallel, true,
                       false);
}
FactorSignature emulated_input_grad_signature(const Op& op, std::span<const TensorType> inputs) {
  return split_by_rows(inputs, infer_emulated_input_grad(op, inputs), FactorKind::kParallel, false,
                       false);
}
FactorSignature emulated_weight_grad_signature(const Op& op, std::span<const TensorType> inputs) {
  return split_by_rows(inputs, infer_emulated_weight_grad(op, inputs), FactorKind::kReduction,
                       false, true);
}

void differentiate_emulated_block(GradientRule& rule) {
  const Node node = rule.node();
  const std::size_t weights = node.inputs.size() - 1;
  std::vector<ValueId> given{*rule.output_gradient()};
  if (node.outputs.size() > 1) given.push_back(node.outputs[1]);
  const auto kept = std::ssize(given) - 1;
  std::vector<ValueId> for_inputs = given, for_weights = given;
  std::vector<std::size_t> trained;
  for (std::size_t i = 0; i < weights; ++i) {
    for_weights.push_back(node.inputs[i]);
    if (!rule.needs_gradient(i)) continue;
    for_inputs.push_back(node.inputs[i]);
    trained.push_back(i);
  }
  if (!trained.empty()) {
    const Op op{OpKind::kEmulatedInputGrad,
                {{"seconds", node.op.real("input_grad_seconds")}, {"kept", kept}}};
    const auto gradients = rule.emit(op, for_inputs, Pass::kInputGrad);
    for (std::size_t i = 0; i < trained.size(); ++i) rule.contribute(trained[i], gradients[i]);
  }
  if (rule.needs_gradient(weights)) {
    const Op op{OpKind::kEmulatedWeightGrad,
                {{"seconds", node.op.real("weight_grad_seconds")},
                 {"weights", rule.type(node.inputs[weights]).elements()}}};
    rule.contribute(weights, rule.emit(op, for_weights, rule.pass_of(weights))[0]);
  }
}

}  // namespace

ValueId GraphBuilder::emulated_block(std::vector<ValueId> inputs, ValueId w,
                                     const EmulatedBlock& block) {
  Op op{OpKind::kEmulatedBlock,
        {{"seconds", block.forward_seconds},
         {"input_grad_seconds", block.input_grad_seconds},
         {"weight_grad_seconds", block.weight_grad_seconds},
         {"saved", block.saved_per_row},
         {"rank", std::ssize(block.features) + 1}}};
  for (std::size_t d = 0; d < block.features.size(); ++d)
    op.attributes.emplace_back("d" + std::to_string(d + 1), block.features[d]);
  inputs.push_back(w);
  return append(std::move(op), std::move(inputs));
}

const OpDefinition kEmulatedBlockDefinition{infer_emulated_block, no_flops,
                                            emulated_block_signature, differentiate_emulated_block};
const OpDefinition kEmulatedInputGradDefinition{infer_emulated_input_grad, no_flops,
                                                emulated_input_grad_signature, nullptr};
const OpDefinition kEmulatedWeightGradDefinition{infer_emulated_weight_grad, no_flops,
                                                 emulated_weight_grad_signature, nullptr};

}  // namespace weft

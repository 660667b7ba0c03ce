#include "core/cuda/internal/op_run.h"

#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/ops/op_definition.h"

namespace weft::cuda {
namespace {

/// Ops that add to their outputs by themselves; others compute beside, and the result is added.
bool accumulates_itself(OpKind kind) {
  switch (kind) {
    case OpKind::kAdd:
    case OpKind::kMultiply:
    case OpKind::kGelu:
    case OpKind::kGeluGrad:
    case OpKind::kSilu:
    case OpKind::kSiluGrad:
    case OpKind::kSigmoid:
    case OpKind::kSigmoidGrad:
    case OpKind::kAddChannels:
    case OpKind::kSumLeading:
    case OpKind::kSumPositions:
    case OpKind::kLinear:
    case OpKind::kLinearInputGrad:
    case OpKind::kLinearWeightGrad:
    case OpKind::kLinearWeightGradSum:
    case OpKind::kConvolution:
    case OpKind::kConvolutionWeightGrad:
    case OpKind::kLayerNormWeightGrad:
    case OpKind::kGroupNormWeightGrad:
    case OpKind::kEmbeddingGrad:
    case OpKind::kCrossEntropy:
    case OpKind::kSquaredError:
    case OpKind::kSquaredErrorGrad:
    case OpKind::kToBF16:
    case OpKind::kToF32: return true;
    default: return false;
  }
}

void run_map(Backend& backend, const OpRun& run, Map f, float parameter = 0) {
  const void* const second = run.inputs.size() > 1 ? run.in(1) : nullptr;
  map(backend.stream(), f, run.type(0), run.outputs[0].type.dtype, run.in(0), second, run.out(),
      run.size(0), parameter, run.accumulate[0]);
}

void run_add(Backend& backend, const OpRun& run) {
  if (run.size(0) == run.size(1)) return run_map(backend, run, Map::kAdd);
  add_broadcast(backend.stream(), run.type(0), run.in(0), run.in(1), run.out(), run.size(0),
                run.size(0), run.size(1), run.accumulate[0]);
}

void run_sum(Backend& backend, const OpRun& run, std::int64_t batch, std::int64_t columns) {
  const std::int64_t rows = run.size(0) / (batch * columns);
  auto* const workspace =
      backend.allocate_of<float>(column_sums_workspace(batch, rows, columns, 1));
  sum_rows(backend.stream(), run.type(0), run.outputs[0].type.dtype, run.in(0), run.out(), batch,
           rows, columns, run.accumulate[0], workspace);
}

float epsilon_of(const OpRun& run) { return static_cast<float>(run.op.real("epsilon")); }

void run_layer_norm_weight_grad(Backend& backend, const OpRun& run) {
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  auto* const workspace =
      backend.allocate_of<float>(2 * rows + column_sums_workspace(1, rows, columns, 2));
  layer_norm_weight_grad(backend.stream(), run.type(0), run.in(0), run.in(1), run.out_floats(0),
                         run.out_floats(1), rows, columns, epsilon_of(run), run.accumulate[0],
                         run.accumulate[1], workspace);
}

GroupNorm group_norm_shape(const OpRun& run) {
  const std::int64_t batch = run.shape(0).front(), channels = run.columns(0);
  return {batch, run.size(0) / (batch * channels), channels, run.op.integer("group_size"),
          epsilon_of(run)};
}

void run_group_norm(Backend& backend, const OpRun& run) {
  const GroupNorm shape = group_norm_shape(run);
  auto* const workspace = backend.allocate_of<float>(shape.workspace());
  switch (run.op.kind) {
    case OpKind::kGroupNorm:
      return group_norm(backend.stream(), run.type(0), shape, run.in(0), run.in(1), run.in(2),
                        run.out(), workspace);
    case OpKind::kGroupNormInputGrad:
      return group_norm_input_grad(backend.stream(), run.type(0), shape, run.in(0), run.in(1),
                                   run.in(2), run.out(), workspace);
    default:
      return group_norm_weight_grad(backend.stream(), run.type(0), shape, run.in(0), run.in(1),
                                    run.out_floats(0), run.out_floats(1), run.accumulate[0],
                                    run.accumulate[1], workspace);
  }
}

void run_embedding_grad(Backend& backend, const OpRun& run) {
  if (!run.accumulate[0]) backend.fill_zero(run.out(), run.outputs[0].type.bytes());
  const std::int64_t tokens = run.size(0);
  auto* const workspace = backend.allocate_of<std::uint64_t>(embedding_grad_workspace(tokens));
  embedding_grad(backend.stream(), run.type(1), run.ids(0), run.in(1), run.out_floats(), tokens,
                 run.op.integer("rows"), run.columns(1), workspace, run.fault_word(),
                 backend.fault());
}

void run_cross_entropy(Backend& backend, const OpRun& run) {
  const float* const weights = run.inputs.size() == 3 ? run.floats(2) : nullptr;
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  const double scale = run.op.real("scale");
  if (run.op.kind == OpKind::kCrossEntropyGrad) {
    return cross_entropy_grad(backend.stream(), run.type(0), run.in(0), run.ids(1), weights,
                              run.out(), rows, columns, static_cast<float>(scale), run.fault_word(),
                              backend.fault());
  }
  auto* const workspace = backend.allocate_of<float>(rows);
  cross_entropy(backend.stream(), run.type(0), run.in(0), run.ids(1), weights, run.out_floats(),
                rows, columns, scale, run.accumulate[0], workspace, run.fault_word(),
                backend.fault());
}

void run_squared_error(Backend& backend, const OpRun& run) {
  auto* const workspace = backend.allocate_of<double>(squared_error_workspace(run.size(0)));
  squared_error(backend.stream(), run.type(0), run.in(0), run.floats(1), run.out_floats(),
                run.size(0), run.op.real("scale"), run.accumulate[0], workspace);
}

Picture picture_of(const Shape& shape) { return {shape[0], shape[1], shape[2], shape[3]}; }

void run_concat(Backend& backend, const OpRun& run) {
  const std::int64_t a = run.columns(0), b = run.columns(1);
  copy_columns(backend.stream(), run.type(0), run.in(0), a, 0, run.out(), a + b, 0, run.rows(0), a);
  copy_columns(backend.stream(), run.type(0), run.in(1), b, 0, run.out(), a + b, a, run.rows(0), b);
}

void dispatch(Backend& backend, const OpRun& run) {
  const StreamHandle stream = backend.stream();
  switch (run.op.kind) {
    case OpKind::kAdd: return run_add(backend, run);
    case OpKind::kSumLeading: return run_sum(backend, run, 1, run.outputs[0].type.elements());
    case OpKind::kLinear: return run_linear(backend, run);
    case OpKind::kLinearInputGrad: return run_linear_input_grad(backend, run);
    case OpKind::kLinearWeightGrad: return run_linear_weight_grad(backend, run);
    case OpKind::kLinearGelu: return run_linear_gelu(backend, run);
    case OpKind::kLinearAdd: return run_linear_add(backend, run);
    case OpKind::kLinearInputGradGelu: return run_linear_input_grad_gelu(backend, run);
    case OpKind::kLinearWeightGradSum: return run_linear_weight_grad_sum(backend, run);
    case OpKind::kGelu: return run_map(backend, run, Map::kGelu);
    case OpKind::kGeluGrad: return run_map(backend, run, Map::kGeluGrad);
    case OpKind::kLayerNorm:
      return layer_norm(stream, run.type(0), run.in(0), run.in(1), run.in(2), run.out(),
                        run.rows(0), run.columns(0), epsilon_of(run));
    case OpKind::kLayerNormInputGrad:
      return layer_norm_input_grad(stream, run.type(0), run.in(0), run.in(1), run.in(2), run.out(),
                                   run.rows(0), run.columns(0), epsilon_of(run));
    case OpKind::kLayerNormWeightGrad: return run_layer_norm_weight_grad(backend, run);
    case OpKind::kAttention: return run_attention(backend, run);
    case OpKind::kAttentionGrad: return run_attention_grad(backend, run);
    case OpKind::kEmbedding:
      return embedding(stream, run.type(0), run.in(0), run.ids(1), run.out(), run.size(1),
                       run.shape(0)[0], run.columns(0), run.fault_word(), backend.fault());
    case OpKind::kEmbeddingGrad: return run_embedding_grad(backend, run);
    case OpKind::kEmulatedBlock:
    case OpKind::kEmulatedInputGrad:
    case OpKind::kEmulatedWeightGrad:
      throw_error(ErrorCode::kFailedPrecondition, "{} computes nothing: run it on emulated devices",
                  to_string(run.op));
    case OpKind::kCrossEntropy:
    case OpKind::kCrossEntropyGrad: return run_cross_entropy(backend, run);
    case OpKind::kSilu: return run_map(backend, run, Map::kSilu);
    case OpKind::kSiluGrad: return run_map(backend, run, Map::kSiluGrad);
    case OpKind::kSigmoid: return run_map(backend, run, Map::kSigmoid);
    case OpKind::kSigmoidGrad: return run_map(backend, run, Map::kSigmoidGrad);
    case OpKind::kMultiply: return run_map(backend, run, Map::kMultiply);
    case OpKind::kConvolution: return run_convolution(backend, run, ConvolutionPass::kForward);
    case OpKind::kConvolutionInputGrad:
      return run_convolution(backend, run, ConvolutionPass::kInputGrad);
    case OpKind::kConvolutionWeightGrad:
      return run_convolution(backend, run, ConvolutionPass::kWeightGrad);
    case OpKind::kGroupNorm:
    case OpKind::kGroupNormInputGrad:
    case OpKind::kGroupNormWeightGrad: return run_group_norm(backend, run);
    case OpKind::kUpsample:
      return upsample(stream, run.type(0), run.in(0), run.out(), picture_of(run.shape(0)),
                      run.op.integer("factor"));
    case OpKind::kUpsampleGrad:
      return upsample_grad(stream, run.type(0), run.in(0), run.out(),
                           picture_of(run.outputs[0].type.shape), run.op.integer("factor"));
    case OpKind::kConcat: return run_concat(backend, run);
    case OpKind::kSlice: {
      const std::int64_t size = run.op.integer("size");
      return copy_columns(stream, run.type(0), run.in(0), run.columns(0), run.op.integer("begin"),
                          run.out(), size, 0, run.rows(0), size);
    }
    case OpKind::kAddChannels:
      return add_broadcast(stream, run.type(0), run.in(0), run.in(1), run.out(), run.size(0),
                           run.size(0) / run.shape(0).front(), run.columns(0), run.accumulate[0]);
    case OpKind::kSumPositions: return run_sum(backend, run, run.shape(0).front(), run.columns(0));
    case OpKind::kCrossAttention: return run_cross_attention(backend, run);
    case OpKind::kCrossAttentionGrad: return run_cross_attention_grad(backend, run);
    case OpKind::kSquaredError: return run_squared_error(backend, run);
    case OpKind::kSquaredErrorGrad:
      return run_map(backend, run, Map::kScaledDifference,
                     static_cast<float>(2 * run.op.real("scale")));
    case OpKind::kToBF16:
    case OpKind::kToF32: return run_map(backend, run, Map::kCopy);
  }
}

void check_types(const Op& op, std::span<const ConstTensorRef> inputs,
                 std::span<const TensorRef> outputs) {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const ConstTensorRef& input : inputs) types.push_back(input.type);
  const std::vector<TensorType> expected = infer_types(op, types);
  WEFT_CHECK(expected.size() == outputs.size(), "{} has {} outputs, {} given", to_string(op),
             expected.size(), outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].type == expected[i]) continue;
    throw_error(ErrorCode::kInvalidArgument, "output {} of {} is {}, but {} was given", i,
                to_string(op), to_string(expected[i]), to_string(outputs[i].type));
  }
}

}  // namespace

void run_op(Backend& backend, const Op& op, std::span<const ConstTensorRef> inputs,
            std::span<const TensorRef> outputs, std::span<const OutputMode> modes) {
  check_types(op, inputs, outputs);
  WEFT_CHECK(modes.empty() || modes.size() == outputs.size(), "{} modes for {} outputs",
             modes.size(), outputs.size());
  OpRun run{op, inputs, outputs, {}};
  bool any = false, empty = false;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (modes[i] != OutputMode::kAccumulate) continue;
    if (outputs[i].type.dtype != DType::kF32) {
      throw_error(ErrorCode::kInvalidArgument,
                  "output {} of {} is {}: only f32 outputs can be accumulated", i, to_string(op),
                  to_string(outputs[i].type));
    }
    any = run.accumulate[i] = true;
  }
  for (const ConstTensorRef& input : inputs) empty |= input.type.elements() == 0;
  if (empty) {  // Sums of nothing, or nothing.
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!run.accumulate[i] && outputs[i].type.elements() > 0)
        backend.fill_zero(outputs[i].data, outputs[i].type.bytes());
    }
    return;
  }
  if (!any || accumulates_itself(op.kind)) return dispatch(backend, run);

  const std::array<bool, 3> accumulate = run.accumulate;
  run.accumulate = {};
  std::vector<TensorRef> beside(outputs.begin(), outputs.end());
  for (std::size_t i = 0; i < beside.size(); ++i) {
    if (accumulate[i])
      beside[i].data = static_cast<std::byte*>(backend.allocate(beside[i].type.bytes()));
  }
  run.outputs = beside;
  dispatch(backend, run);
  for (std::size_t i = 0; i < beside.size(); ++i) {
    if (!accumulate[i]) continue;
    const DType type = outputs[i].type.dtype;
    map(backend.stream(), Map::kAdd, type, type, outputs[i].data, beside[i].data, outputs[i].data,
        outputs[i].type.elements(), 0, false);
  }
}

void check_fault(Fault& fault) {
  const std::uint64_t word = fault;
  if (word == 0) return;
  fault = 0;
  const auto kind = static_cast<OpKind>((word >> 32) - 1);
  const auto number = static_cast<std::int32_t>(word & 0xffffffffu);
  const bool target = kind == OpKind::kCrossEntropy || kind == OpKind::kCrossEntropyGrad;
  throw_error(ErrorCode::kInvalidArgument,
              "{}: the {} {} is outside the {}; do the data fit the model's vocabulary?",
              to_string(kind), target ? "target" : "id", number, target ? "logits" : "table");
}

}  // namespace weft::cuda

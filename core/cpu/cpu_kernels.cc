#include "core/cpu/cpu_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/cpu/internal/float32_copies.h"
#include "core/cpu/internal/op_kernels.h"
#include "core/ops/op_definition.h"
#include "core/tensor/bfloat16.h"

namespace weft {
namespace {

/// Ops whose kernels can add to their outputs: those that make gradients of parameters, and partial
/// sums.
bool accumulates_itself(OpKind kind) {
  switch (kind) {
    case OpKind::kSumLeading:
    case OpKind::kLinearInputGrad:
    case OpKind::kLinearWeightGrad:
    case OpKind::kLinearWeightGradSum:
    case OpKind::kLayerNormWeightGrad:
    case OpKind::kEmbeddingGrad:
    case OpKind::kGroupNormWeightGrad:
    case OpKind::kSumPositions:
    case OpKind::kCrossEntropy: return true;
    default: return false;
  }
}

void run_layer_norm_weight_grad(const VectorKernels& vector, const OpRun& run) {
  const std::int64_t columns = run.shape(0).back();
  for (std::size_t i = 0; i < 2; ++i) {
    if (!run.accumulate[i])
      std::memset(run.out(i), 0, static_cast<std::size_t>(columns) * sizeof(float));
  }
  vector.layer_norm_weight_grad(run.in(0), run.in(1), run.out(0), run.out(1), run.rows(0), columns,
                                static_cast<float>(run.op.real("epsilon")));
}

void dispatch(CpuKernels::Context& context, const OpRun& run) {
  const VectorKernels& vector = context.vector;
  const auto size = [&](std::size_t input) { return run.inputs[input].type.elements(); };
  const auto epsilon = [&] { return static_cast<float>(run.op.real("epsilon")); };
  switch (run.op.kind) {
    case OpKind::kAdd:
      return vector.add_row(run.in(0), run.in(1), run.out(), size(0) / size(1), size(1));
    case OpKind::kSumLeading: {
      const std::int64_t columns = run.outputs[0].type.elements();
      return vector.sum_rows(run.in(0), size(0) / columns, columns, run.out(), run.accumulate[0]);
    }
    case OpKind::kLinear: return run_linear(context, run);
    case OpKind::kLinearInputGrad: return run_linear_input_grad(context, run);
    case OpKind::kLinearWeightGrad: return run_linear_weight_grad(context, run);
    case OpKind::kLinearGelu: return run_linear_gelu(context, run);
    case OpKind::kLinearAdd: return run_linear_add(context, run);
    case OpKind::kLinearInputGradGelu: return run_linear_input_grad_gelu(context, run);
    case OpKind::kLinearWeightGradSum: return run_linear_weight_grad_sum(context, run);
    case OpKind::kGelu: return vector.gelu(run.in(0), run.out(), size(0));
    case OpKind::kGeluGrad: return vector.gelu_grad(run.in(0), run.in(1), run.out(), size(0));
    case OpKind::kLayerNorm:
      return vector.layer_norm(run.in(0), run.in(1), run.in(2), run.out(), run.rows(0),
                               run.shape(0).back(), epsilon());
    case OpKind::kLayerNormInputGrad:
      return vector.layer_norm_input_grad(run.in(0), run.in(1), run.in(2), run.out(), run.rows(0),
                                          run.shape(0).back(), epsilon());
    case OpKind::kLayerNormWeightGrad: return run_layer_norm_weight_grad(vector, run);
    case OpKind::kAttention: return run_attention(context, run);
    case OpKind::kAttentionGrad: return run_attention_grad(context, run);
    case OpKind::kEmbedding: return run_embedding(context, run);
    case OpKind::kEmbeddingGrad: return run_embedding_grad(context, run);
    case OpKind::kToBF16:
    case OpKind::kToF32:  // the f32 copies of bf16 tensors do it
      std::memcpy(run.outputs[0].data, run.inputs[0].data, run.outputs[0].type.bytes());
      return;
    case OpKind::kEmulatedBlock:
    case OpKind::kEmulatedInputGrad:
    case OpKind::kEmulatedWeightGrad:
      throw_error(ErrorCode::kFailedPrecondition, "{} computes nothing: run it on emulated devices",
                  to_string(run.op));
    case OpKind::kCrossEntropy: return run_cross_entropy(context, run);
    case OpKind::kCrossEntropyGrad: return run_cross_entropy_grad(context, run);
    case OpKind::kSilu: return vector.silu(run.in(0), run.out(), size(0));
    case OpKind::kSiluGrad: return vector.silu_grad(run.in(0), run.in(1), run.out(), size(0));
    case OpKind::kSigmoid: return vector.sigmoid(run.in(0), run.out(), size(0));
    case OpKind::kSigmoidGrad: return vector.sigmoid_grad(run.in(0), run.in(1), run.out(), size(0));
    case OpKind::kMultiply: return vector.multiply(run.in(0), run.in(1), run.out(), size(0));
    case OpKind::kConvolution: return run_convolution(context, run);
    case OpKind::kConvolutionInputGrad: return run_convolution_input_grad(context, run);
    case OpKind::kConvolutionWeightGrad: return run_convolution_weight_grad(context, run);
    case OpKind::kGroupNorm: return run_group_norm(context, run);
    case OpKind::kGroupNormInputGrad: return run_group_norm_input_grad(context, run);
    case OpKind::kGroupNormWeightGrad: return run_group_norm_weight_grad(context, run);
    case OpKind::kUpsample: return run_upsample(context, run);
    case OpKind::kUpsampleGrad: return run_upsample_grad(context, run);
    case OpKind::kConcat: return run_concat(context, run);
    case OpKind::kSlice: return run_slice(context, run);
    case OpKind::kAddChannels: return run_add_channels(context, run);
    case OpKind::kSumPositions: return run_sum_positions(context, run);
    case OpKind::kCrossAttention: return run_cross_attention(context, run);
    case OpKind::kCrossAttentionGrad: return run_cross_attention_grad(context, run);
    case OpKind::kSquaredError: {
      *run.out() = static_cast<float>(run.op.real("scale") *
                                      vector.squared_error(run.in(0), run.in(1), size(0)));
      return;
    }
    case OpKind::kSquaredErrorGrad:
      return vector.scaled_difference(run.in(0), run.in(1), run.out(), size(0),
                                      static_cast<float>(2 * run.op.real("scale")));
  }
}

/// Runs the op on f32 tensors.
void run_f32(CpuKernels::Context& context, const Op& op, std::span<const ConstTensorRef> inputs,
             std::span<const TensorRef> outputs, std::span<const OutputMode> modes) {
  OpRun run{op, inputs, outputs, {}};
  bool any = false;
  for (std::size_t i = 0; i < modes.size(); ++i)
    any |= run.accumulate[i] = modes[i] == OutputMode::kAccumulate;
  if (!any || accumulates_itself(op.kind)) return dispatch(context, run);

  // Computed beside, then added (or copied, where only another output accumulates).
  std::size_t floats = 0;
  for (const TensorRef& output : outputs)
    floats += static_cast<std::size_t>(output.type.elements());
  float* at = context.accumulate_buffer.floats(floats);
  std::vector<TensorRef> beside;
  for (const TensorRef& output : outputs) {
    beside.push_back({output.type, reinterpret_cast<std::byte*>(at)});
    at += output.type.elements();
  }
  const std::array<bool, 3> accumulate = std::exchange(run.accumulate, {});
  run.outputs = beside;
  dispatch(context, run);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (accumulate[i]) {
      context.vector.add_row(outputs[i].as<float>().data(), beside[i].as<float>().data(),
                             outputs[i].as<float>().data(), 1, outputs[i].type.elements());
    } else {
      std::memcpy(outputs[i].data, beside[i].data, outputs[i].type.bytes());
    }
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

/// As many as outputs, or none; only f32 outputs accumulate.
void check_modes(const Op& op, std::span<const TensorRef> outputs,
                 std::span<const OutputMode> modes) {
  WEFT_CHECK(modes.empty() || modes.size() == outputs.size(), "{} modes for {} outputs",
             modes.size(), outputs.size());
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (modes[i] == OutputMode::kWrite || outputs[i].type.dtype == DType::kF32) continue;
    throw_error(ErrorCode::kInvalidArgument,
                "output {} of {} is {}: only f32 outputs can be accumulated", i, to_string(op),
                to_string(outputs[i].type));
  }
}

}  // namespace

CpuKernels::CpuKernels(InstructionSet instruction_set, int threads) {
  if (instruction_set > detect_instruction_set()) {
    throw_error(ErrorCode::kInvalidArgument, "this CPU does not have {} instructions; it has {}",
                to_string(instruction_set), to_string(detect_instruction_set()));
  }
  if (threads < 1)
    throw_error(ErrorCode::kInvalidArgument, "a device needs at least 1 thread, not {}", threads);
  context_.reset(new Context{vector_kernels(instruction_set), threads, {}, {}, {}, {}, {}});
}

CpuKernels::~CpuKernels() = default;

void CpuKernels::run(const Op& op, std::span<const ConstTensorRef> inputs,
                     std::span<const TensorRef> outputs, std::span<const OutputMode> modes) {
  check_types(op, inputs, outputs);
  check_modes(op, outputs, modes);
  set_matmul_threads(context_->threads);
  if (!any_bf16(inputs, outputs)) return run_f32(*context_, op, inputs, outputs, modes);
  const Float32Copies copies(inputs, outputs, context_->float32_copies);
  run_f32(*context_, op, copies.inputs(), copies.outputs(), modes);
  copies.round_outputs();
}

void CpuKernels::add(std::span<const float> from, std::span<float> to) {
  WEFT_CHECK(from.size() == to.size());
  context_->vector.add_row(to.data(), from.data(), to.data(), 1,
                           static_cast<std::int64_t>(to.size()));
}

void CpuKernels::adamw(const AdamW& step, const OptimizedParameter& parameter) {
  const auto& [gradient, value, first_moment, second_moment, decay, working] = parameter;
  const std::size_t size = value.size();
  WEFT_CHECK(gradient.size() == size && first_moment.size() == size &&
             second_moment.size() == size);
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  const AdamWConstants constants{
      .gradient_scale = static_cast<float>(step.gradient_scale),
      .beta1 = static_cast<float>(step.beta1),
      .beta2 = static_cast<float>(step.beta2),
      .one_minus_beta1 = static_cast<float>(1 - step.beta1),
      .one_minus_beta2 = static_cast<float>(1 - step.beta2),
      .step_size = static_cast<float>(step.learning_rate / correction1),
      .inverse_root_correction = static_cast<float>(1 / std::sqrt(correction2)),
      .epsilon = static_cast<float>(step.epsilon),
      .decay = static_cast<float>(decay ? step.learning_rate * step.weight_decay : 0)};
  context_->vector.adamw(constants, gradient.data(), value.data(), first_moment.data(),
                         second_moment.data(), static_cast<std::int64_t>(size));
  if (working.data == nullptr) return;
  WEFT_CHECK(working.type.dtype == DType::kBF16, "a working copy in {}", to_string(working.type));
  convert(value, working.as<BFloat16>());
}

double CpuKernels::sum_of_squares(std::span<const float> values) {
  return context_->vector.sum_of_squares(values.data(), static_cast<std::int64_t>(values.size()));
}

}  // namespace weft

// Every op on every runner against the CPU's f32 kernels: odd and even sizes, f32 and bf16, written
// and accumulated, in place, at addresses that are aligned and that are not. Inputs of bf16 are
// compared with what the CPU makes of the same numbers in f32.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "core/base/error.h"
#include "core/cpu/cpu_kernels.h"
#include "core/ops/op_definition.h"
#include "core/tensor/bfloat16.h"
#include "tests/contract/kernels/kernel_runners.h"
#include "tests/support/op_cases.h"

namespace weft::test {
namespace {

/// A tensor in host memory, `offset` elements behind an address of 64 bytes.
struct HostTensor {
  TensorType type;
  std::vector<std::uint32_t> words;  // Enough of them, with 64 bytes to spare on both sides.
  std::size_t begin = 0;

  HostTensor(TensorType t, std::size_t offset) : type(std::move(t)), words(type.bytes() / 4 + 48) {
    const std::size_t address = reinterpret_cast<std::uintptr_t>(words.data());
    begin = (64 - address % 64) % 64 + 64 + offset * size_of(type.dtype);
  }
  HostTensor(HostTensor&& other) noexcept = default;  // Vectors keep their memory when moved.
  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()) + begin; }
  TensorRef ref() { return {type, data()}; }

  double get(std::int64_t i) {
    const std::byte* const at = data() + static_cast<std::size_t>(i) * size_of(type.dtype);
    if (type.dtype == DType::kBF16)
      return static_cast<float>(*reinterpret_cast<const BFloat16*>(at));
    if (type.dtype == DType::kI32) return *reinterpret_cast<const std::int32_t*>(at);
    return *reinterpret_cast<const float*>(at);
  }
  void set(std::int64_t i, double value) {
    std::byte* const at = data() + static_cast<std::size_t>(i) * size_of(type.dtype);
    if (type.dtype == DType::kBF16) {
      *reinterpret_cast<BFloat16*>(at) = BFloat16(static_cast<float>(value));
    } else if (type.dtype == DType::kI32) {
      *reinterpret_cast<std::int32_t*>(at) = static_cast<std::int32_t>(value);
    } else {
      *reinterpret_cast<float*>(at) = static_cast<float>(value);
    }
  }
};

enum class Input : std::uint8_t { kReal, kF32, kId };
struct InputShape {
  Shape shape;
  Input input = Input::kReal;
};

struct Case {
  std::string name;
  Op op;
  std::vector<InputShape> inputs;
  std::int64_t ids_below = 0;  ///< Of the inputs that are ids.
  double shift = 0;            ///< Added to the numbers of input 0.
  /// Of the results, for errors that are not relative to each of them.
  double size = 1;
};

Op op_of(OpKind kind, std::vector<std::pair<std::string, Attribute>> attributes = {}) {
  return {kind, std::move(attributes)};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, Op op, std::vector<InputShape> inputs,
                       std::int64_t ids_below = 0, double shift = 0, double size = 1) {
    all.push_back({std::move(name), std::move(op), std::move(inputs), ids_below, shift, size});
  };
  const auto norm = [](OpKind kind) { return op_of(kind, {{"epsilon", 1e-5}}); };
  const auto groups = [](OpKind kind, std::int64_t group) {
    return op_of(kind, {{"group_size", group}, {"epsilon", 1e-5}});
  };

  for (const Shape& s : {Shape{3, 5, 7}, Shape{4, 9, 64}}) {
    const Shape last{s[1], s[2]}, row{s[2]}, ends{s[0], s[2]};
    const std::string sizes = "_" + std::to_string(s[2]);
    add("add" + sizes, op_of(OpKind::kAdd), {{s}, {s}});
    add("add_rows" + sizes, op_of(OpKind::kAdd), {{s}, {last}});
    add("multiply" + sizes, op_of(OpKind::kMultiply), {{s}, {s}});
    add("gelu" + sizes, op_of(OpKind::kGelu), {{s}});
    add("gelu_grad" + sizes, op_of(OpKind::kGeluGrad), {{s}, {s}});
    add("silu" + sizes, op_of(OpKind::kSilu), {{s}});
    add("silu_grad" + sizes, op_of(OpKind::kSiluGrad), {{s}, {s}});
    add("sigmoid" + sizes, op_of(OpKind::kSigmoid), {{s}});
    add("sigmoid_grad" + sizes, op_of(OpKind::kSigmoidGrad), {{s}, {s}});
    add("add_channels" + sizes, op_of(OpKind::kAddChannels), {{s}, {ends}});
    add("sum_positions" + sizes, op_of(OpKind::kSumPositions), {{s}}, 0, 0, 4);
    add("sum_leading_1" + sizes, op_of(OpKind::kSumLeading, {{"dimensions", std::int64_t{1}}}),
        {{s}}, 0, 0, 4);
    add("sum_leading_2" + sizes, op_of(OpKind::kSumLeading, {{"dimensions", std::int64_t{2}}}),
        {{s}}, 0, 0, 8);
    add("concat" + sizes, op_of(OpKind::kConcat), {{s}, {{s[0], s[1], s[2] / 2}}});
    add("slice" + sizes, op_of(OpKind::kSlice, {{"begin", s[2] / 4}, {"size", s[2] / 2}}), {{s}});
    add("squared_error" + sizes, op_of(OpKind::kSquaredError, {{"scale", 0.01}}),
        {{s}, {s, Input::kF32}}, 0, 0, 10);
    add("squared_error_grad" + sizes, op_of(OpKind::kSquaredErrorGrad, {{"scale", 0.5}}),
        {{s}, {s, Input::kF32}});
    add("linear" + sizes, op_of(OpKind::kLinear), {{s}, {{s[2], 3, 8}}, {{3, 8}}}, 0, 0, 8);
    add("linear_without_bias" + sizes, op_of(OpKind::kLinear), {{s}, {{s[2], 5}}}, 0, 0, 8);
    add("linear_input_grad" + sizes, op_of(OpKind::kLinearInputGrad), {{s}, {{6, s[2]}}}, 0, 0, 8);
    add("linear_weight_grad" + sizes, op_of(OpKind::kLinearWeightGrad), {{s}, {{s[0], s[1], 3, 2}}},
        0, 0, 8);
    for (const std::int64_t keep : {0, 1}) {
      const Op linear_gelu = op_of(OpKind::kLinearGelu, {{"keep", keep}});
      add("linear_gelu" + sizes + (keep == 1 ? "_kept" : ""), linear_gelu,
          {{s}, {{s[2], 3, 8}}, {{3, 8}}}, 0, 0, 8);
      add("linear_gelu_odd" + sizes + (keep == 1 ? "_kept" : ""), linear_gelu,
          {{s}, {{s[2], 13}}, {{13}}}, 0, 0, 8);
    }
    add("linear_add" + sizes, op_of(OpKind::kLinearAdd),
        {{s}, {{s[2], 3, 8}}, {{s[0], s[1], 3, 8}}, {{3, 8}}}, 0, 0, 8);
    add("linear_add_without_bias" + sizes, op_of(OpKind::kLinearAdd),
        {{s}, {{s[2], 5}}, {{s[0], s[1], 5}}}, 0, 0, 8);
    add("linear_input_grad_gelu" + sizes, op_of(OpKind::kLinearInputGradGelu),
        {{s}, {{16, s[2]}}, {{s[0], s[1], 16}}}, 0, 0, 8);
    add("linear_input_grad_gelu_odd" + sizes, op_of(OpKind::kLinearInputGradGelu),
        {{s}, {{6, s[2]}}, {{s[0], s[1], 6}}}, 0, 0, 8);
    add("linear_weight_grad_sum" + sizes, op_of(OpKind::kLinearWeightGradSum),
        {{s}, {{s[0], s[1], 3, 2}}}, 0, 0, 8);
    add("linear_weight_grad_sum_of_8" + sizes, op_of(OpKind::kLinearWeightGradSum),
        {{s}, {{s[0], s[1], 8}}}, 0, 0, 8);
  }
  // Several splits of the rows, several tiles of the columns.
  add("sum_many_rows", op_of(OpKind::kSumLeading, {{"dimensions", std::int64_t{2}}}),
      {{{7, 101, 9}}}, 0, 0, 30);
  add("sum_many_rows_wide", op_of(OpKind::kSumLeading, {{"dimensions", std::int64_t{1}}}),
      {{{131, 344}}}, 0, 0, 20);

  // Rows within and beyond what a warp holds in registers.
  for (const std::int64_t columns : {5, 64, 301, 2104}) {
    const Shape x{3, columns}, row{columns};
    const std::string sizes = "_" + std::to_string(columns);
    add("layer_norm" + sizes, norm(OpKind::kLayerNorm), {{x}, {row}, {row}}, 0, 2);
    add("layer_norm_input_grad" + sizes, norm(OpKind::kLayerNormInputGrad), {{x}, {row}, {x}}, 0,
        2);
    add("layer_norm_weight_grad" + sizes, norm(OpKind::kLayerNormWeightGrad), {{x}, {x}}, 0, 2, 4);
  }
  add("layer_norm_weight_grad_rows", norm(OpKind::kLayerNormWeightGrad),
      {{{3, 67, 24}}, {{3, 67, 24}}}, 0, 0, 20);

  for (const auto& [s, group] : std::vector<std::pair<Shape, std::int64_t>>{
           {{2, 3, 5, 6}, 3}, {{3, 9, 16}, 8}, {{2, 77, 80}, 40}}) {
    const Shape row{s.back()};
    const std::string sizes = "_" + std::to_string(s.back());
    add("group_norm" + sizes, groups(OpKind::kGroupNorm, group), {{s}, {row}, {row}}, 0, 20);
    add("group_norm_input_grad" + sizes, groups(OpKind::kGroupNormInputGrad, group),
        {{s}, {row}, {s}}, 0, 1, 2);
    add("group_norm_weight_grad" + sizes, groups(OpKind::kGroupNormWeightGrad, group), {{s}, {s}},
        0, 1, 20);
  }

  for (const std::int64_t columns : {3, 1001, 9000}) {
    const Shape logits{3, 1, columns}, targets{3, 1};
    const std::string sizes = "_" + std::to_string(columns);
    for (const OpKind kind : {OpKind::kCrossEntropy, OpKind::kCrossEntropyGrad}) {
      const std::string name = std::string(to_string(kind)) + sizes;
      add(name, op_of(kind, {{"scale", 0.25}}), {{logits}, {targets, Input::kId}}, columns, 3, 4);
      add(name + "_weights", op_of(kind, {{"scale", 0.25}}),
          {{logits}, {targets, Input::kId}, {targets, Input::kF32}}, columns, 0, 4);
    }
  }

  for (const std::int64_t columns : {7, 16, 328}) {
    const std::string sizes = "_" + std::to_string(columns);
    add("embedding" + sizes, op_of(OpKind::kEmbedding), {{{11, columns}}, {{3, 5}, Input::kId}},
        11);
    add("embedding_grad" + sizes, op_of(OpKind::kEmbeddingGrad, {{"rows", std::int64_t{11}}}),
        {{{3, 15}, Input::kId}, {{3, 15, columns}}}, 11, 0, 6);
  }
  // More tokens than one block sorts.
  add("embedding_grad_many", op_of(OpKind::kEmbeddingGrad, {{"rows", std::int64_t{300}}}),
      {{{1030}, Input::kId}, {{1030, 3}}}, 300, 0, 9);

  for (const auto& [s, head] : std::vector<std::pair<Shape, std::int64_t>>{
           {{2, 5, 3, 6}, 3}, {{1, 37, 3, 32}, 16}, {{1, 70, 3, 8}, 8}}) {
    const Shape y{s[0], s[1], s[3]};
    const std::string sizes = "_" + std::to_string(s[1]) + "_" + std::to_string(head);
    const InputShape statistics{{s[0], s[3] / head, s[1]}, Input::kF32};
    const Op op = op_of(OpKind::kAttention, {{"head_dim", head}}),
             grad = op_of(OpKind::kAttentionGrad, {{"head_dim", head}});
    add("attention" + sizes, op, {{s}});
    add("attention_grad" + sizes, grad, {{s}, {y}, statistics, {y}}, 0, 0, 4);
  }
  // Heads so wide that tiles of 32 do not fit.
  add("attention_wide", op_of(OpKind::kAttention, {{"head_dim", std::int64_t{300}}}),
      {{{1, 18, 3, 300}}}, 0, 0, 1);
  add("attention_grad_wide", op_of(OpKind::kAttentionGrad, {{"head_dim", std::int64_t{300}}}),
      {{{1, 18, 3, 300}}, {{1, 18, 300}}, {{1, 1, 18}, Input::kF32}, {{1, 18, 300}}}, 0, 0, 8);
  for (const auto& [q, k] : std::vector<std::pair<Shape, Shape>>{
           {{2, 3, 4, 6}, {2, 5, 6}}, {{1, 40, 16}, {1, 7, 5, 16}}, {{2, 1, 8}, {2, 70, 8}}}) {
    const std::int64_t head = q.back() / 2;
    const std::string sizes = "_" + std::to_string(q.back());
    const Op op = op_of(OpKind::kCrossAttention, {{"head_dim", head}}),
             grad = op_of(OpKind::kCrossAttentionGrad, {{"head_dim", head}});
    add("cross_attention" + sizes, op, {{q}, {k}, {k}});
    InputShape statistics{q, Input::kF32};
    statistics.shape.pop_back();
    statistics.shape.insert(statistics.shape.begin() + 1, 2);
    add("cross_attention_grad" + sizes, grad, {{q}, {k}, {k}, {q}, statistics, {q}}, 0, 0, 4);
  }

  struct ConvolutionSizes {
    Shape x, w;
    std::int64_t stride, padding;
  };
  for (const auto& [x, w, stride, padding] :
       std::vector<ConvolutionSizes>{{{2, 5, 7, 3}, {3, 3, 3, 5}, 1, 1},
                                     {{2, 8, 9, 8}, {3, 3, 8, 16}, 2, 1},
                                     {{1, 6, 5, 8}, {1, 1, 8, 8}, 1, 0},
                                     {{1, 7, 7, 2}, {4, 2, 2, 3}, 3, 0}}) {
    const Op op = op_of(OpKind::kConvolution, {{"stride", stride}, {"padding", padding}});
    const Shape y =
        infer_types(op, std::vector<TensorType>{{DType::kF32, x}, {DType::kF32, w}})[0].shape;
    const std::string sizes =
        "_" + std::to_string(w[0]) + "x" + std::to_string(w[1]) + "_" + std::to_string(stride);
    add("convolution" + sizes, op, {{x}, {w}, {{w[3]}}}, 0, 0, 8);
    add("convolution_without_bias" + sizes, op, {{x}, {w}}, 0, 0, 8);
    add("convolution_input_grad" + sizes,
        op_of(OpKind::kConvolutionInputGrad,
              {{"stride", stride}, {"padding", padding}, {"height", x[1]}, {"width", x[2]}}),
        {{y}, {w}}, 0, 0, 8);
    add("convolution_weight_grad" + sizes,
        op_of(OpKind::kConvolutionWeightGrad, {{"stride", stride},
                                               {"padding", padding},
                                               {"kernel_height", w[0]},
                                               {"kernel_width", w[1]}}),
        {{x}, {y}}, 0, 0, 8);
  }
  for (const std::int64_t channels : {3, 16}) {
    const std::string sizes = "_" + std::to_string(channels);
    add("upsample" + sizes, op_of(OpKind::kUpsample, {{"factor", std::int64_t{2}}}),
        {{{2, 3, 5, channels}}});
    add("upsample_grad" + sizes, op_of(OpKind::kUpsampleGrad, {{"factor", std::int64_t{3}}}),
        {{{2, 6, 9, channels}}}, 0, 0, 4);
  }
  return all;
}

std::vector<HostTensor> make_inputs(const Case& c, DType real, std::size_t offset,
                                    const std::function<double()>& normal) {
  std::vector<HostTensor> inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const auto& [shape, kind] = c.inputs[i];
    const DType dtype = kind == Input::kId ? DType::kI32 : kind == Input::kF32 ? DType::kF32 : real;
    inputs.emplace_back(TensorType{dtype, shape}, kind == Input::kReal ? offset : 0);
    HostTensor& tensor = inputs.back();
    const auto ids = static_cast<double>(c.ids_below);
    for (std::int64_t e = 0; e < tensor.type.elements(); ++e) {
      const double number = normal();
      // Few of the ids are frequent.
      tensor.set(e, kind == Input::kId ? std::min(ids - 1, std::floor(std::abs(number) * 0.3 * ids))
                                       : number + (i == 0 ? c.shift : 0));
    }
  }
  if (const auto kept = kept_by_forward(c.op)) {
    std::vector<ConstTensorRef> in;
    std::vector<TensorRef> out;
    for (std::size_t i = 0; i < kept->inputs; ++i) in.push_back(inputs[i].ref());
    for (std::size_t i = 0; i < 2; ++i) out.push_back(inputs[kept->inputs + i].ref());
    CpuKernels(detect_instruction_set()).run(kept->forward, in, out, {});
  }
  return inputs;
}

/// Ops of two parts between which a GPU may round to bf16.
bool of_two_parts(OpKind kind) {
  return kind == OpKind::kLinearGelu || kind == OpKind::kLinearAdd ||
         kind == OpKind::kLinearInputGradGelu;
}

bool fused(OpKind kind) {
  return kind == OpKind::kAttention || kind == OpKind::kAttentionGrad ||
         kind == OpKind::kCrossAttention || kind == OpKind::kCrossAttentionGrad ||
         kind == OpKind::kConvolution;
}

class KernelContract : public testing::TestWithParam<KindOfRunner> {
 protected:
  void SetUp() override {
    try {
      runner = GetParam().make();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kFailedPrecondition) throw;
      GTEST_SKIP() << "skipped: " << error.message();
    }
  }

  /// What the CPU computes of the same numbers in f32.
  static std::vector<HostTensor> expected_outputs(const Case& c, std::vector<HostTensor>& inputs) {
    std::vector<HostTensor> in;
    std::vector<ConstTensorRef> in_refs;
    std::vector<TensorType> types;
    for (HostTensor& input : inputs) {
      in.emplace_back(
          TensorType{input.type.dtype == DType::kI32 ? DType::kI32 : DType::kF32, input.type.shape},
          0);
      for (std::int64_t e = 0; e < input.type.elements(); ++e) in.back().set(e, input.get(e));
      types.push_back(in.back().type);
      in_refs.push_back(in.back().ref());
    }
    std::vector<HostTensor> outputs;
    std::vector<TensorRef> out_refs;
    for (const TensorType& type : infer_types(c.op, types)) {
      outputs.emplace_back(type, 0);
      out_refs.push_back(outputs.back().ref());
    }
    CpuKernels(detect_instruction_set()).run(c.op, in_refs, out_refs, {});
    return outputs;
  }

  void check(const Case& c, DType real, std::size_t offset, bool accumulate, bool in_place) {
    SCOPED_TRACE(c.name + " of " + std::string(to_string(real)) +
                 (offset != 0 ? ", not aligned" : "") + (accumulate ? ", accumulated" : "") +
                 (in_place ? ", in place" : ""));
    std::vector<HostTensor> inputs = make_inputs(c, real, offset, [&] { return normal(random); });
    std::vector<HostTensor> expected = expected_outputs(c, inputs);
    std::vector<ConstTensorRef> in_refs;
    std::vector<TensorType> types;
    for (HostTensor& input : inputs) {
      in_refs.push_back(input.ref());
      types.push_back(input.type);
    }
    std::vector<HostTensor> outputs;
    std::vector<TensorRef> out_refs;
    std::vector<OutputMode> modes;
    std::vector<std::vector<double>> before;
    for (const TensorType& type : infer_types(c.op, types)) {
      if (accumulate && type.dtype != DType::kF32) return;  // What is accumulated is f32.
      outputs.emplace_back(type, offset);
      before.emplace_back();
      for (std::int64_t e = 0; e < type.elements(); ++e) {
        outputs.back().set(e, accumulate ? normal(random) : std::nan(""));
        before.back().push_back(accumulate ? outputs.back().get(e) : 0);
      }
      modes.push_back(accumulate ? OutputMode::kAccumulate : OutputMode::kWrite);
      out_refs.push_back(outputs.back().ref());
    }
    HostTensor* first_output = outputs.data();
    if (in_place) {
      const auto shared = static_cast<std::size_t>(definition(c.op.kind).in_place_input);
      first_output = &inputs[shared];
      out_refs[0].data = inputs[shared].data();
    }
    runner->run(c.op, in_refs, out_refs, modes);
    // A GPU's libraries round probabilities, and the sum that the bias is added to, to bf16.
    const bool gpu = GetParam().name == "cuda" || GetParam().name == "cuda_recorded";
    const bool rounds_between = (gpu && fused(c.op.kind)) || of_two_parts(c.op.kind);
    const double library = real == DType::kBF16 && rounds_between ? 0.01 * c.size : 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      HostTensor& output = i == 0 ? *first_output : outputs[i];
      // cuDNN gives gradients of bf16 weights in bf16, which are then made f32.
      const bool rounded = output.type.dtype == DType::kBF16 ||
                           (real == DType::kBF16 && c.op.kind == OpKind::kConvolutionWeightGrad);
      int wrong = 0;
      for (std::int64_t e = 0; e < output.type.elements() && wrong < 3; ++e) {
        const double is = output.get(e), old = before[i][static_cast<std::size_t>(e)],
                     should = expected[i].get(e) + old;
        // bf16 has 8 bits of mantissa.
        const double allowed = library + 3e-5 * c.size + 1e-4 * std::abs(should) +
                               (rounded ? std::abs(should) / 256 : 0);
        if (std::abs(is - should) <= allowed) continue;
        ++wrong;
        ADD_FAILURE() << "output " << i << "[" << e << "] is " << is << ", should be " << should
                      << " within " << allowed;
      }
    }
  }

  std::unique_ptr<KernelRunner> runner;
  std::mt19937 random{1};
  std::normal_distribution<double> normal;
};

TEST_P(KernelContract, EveryOpInEveryTypeAndMode) {
  for (const Case& c : cases()) {
    for (const DType real : {DType::kF32, DType::kBF16}) {
      for (const bool accumulate : {false, true}) check(c, real, 0, accumulate, false);
    }
    if (HasFatalFailure()) return;
  }
}

TEST_P(KernelContract, AddressesNeedNotBeAligned) {
  for (const Case& c : cases()) {
    for (const DType real : {DType::kF32, DType::kBF16}) check(c, real, 1, false, false);
  }
}

TEST_P(KernelContract, InPlaceWhereTheOpAllowsIt) {
  for (const Case& c : cases()) {
    const int shared = definition(c.op.kind).in_place_input;
    if (shared < 0) continue;
    for (const DType real : {DType::kF32, DType::kBF16}) check(c, real, 0, false, true);
  }
}

/// A barrier that a kernel lacks shows in one order of its threads or in the other. Results must be
/// equal bit for bit.
TEST(CudaOnHost, TheOrderOfThreadsDoesNotMatter) {
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  const auto forward = cuda_on_host(HostOrder::kForward),
             backward = cuda_on_host(HostOrder::kBackward);
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    std::vector<HostTensor> inputs =
        make_inputs(c, DType::kBF16, 0, [&] { return normal(random); });
    std::vector<ConstTensorRef> in_refs;
    std::vector<TensorType> types;
    for (HostTensor& input : inputs) {
      in_refs.push_back(input.ref());
      types.push_back(input.type);
    }
    std::vector<HostTensor> a, b;
    std::vector<TensorRef> a_refs, b_refs;
    for (const TensorType& type : infer_types(c.op, types)) {
      a.emplace_back(type, 0);
      b.emplace_back(type, 0);
      a_refs.push_back(a.back().ref());
      b_refs.push_back(b.back().ref());
    }
    forward->run(c.op, in_refs, a_refs, {});
    backward->run(c.op, in_refs, b_refs, {});
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(std::memcmp(a_refs[i].data, b_refs[i].data, a[i].type.bytes()), 0)
          << "output " << i;
    }
  }
}

TEST_P(KernelContract, ConversionsRoundToNearestEven) {
  const Shape shape{3, 27};
  HostTensor f32({DType::kF32, shape}, 0), bf16({DType::kBF16, shape}, 0),
      back({DType::kF32, shape}, 0);
  for (std::int64_t i = 0; i < f32.type.elements(); ++i)
    f32.set(i, normal(random) * std::pow(10.0, i % 20 - 10));
  const std::uint32_t ties[] = {0x3f808000u, 0x3f818000u, 0xbf808001u, 0x7f7fffffu,
                                0x7f800000u};  // Two ties, above one, overflow, infinity.
  for (std::int64_t i = 0; i < 5; ++i) f32.set(i, std::bit_cast<float>(ties[i]));
  runner->run(op_of(OpKind::kToBF16), std::vector<ConstTensorRef>{f32.ref()},
              std::vector<TensorRef>{bf16.ref()}, {});
  runner->run(op_of(OpKind::kToF32), std::vector<ConstTensorRef>{bf16.ref()},
              std::vector<TensorRef>{back.ref()}, {});
  for (std::int64_t i = 0; i < f32.type.elements(); ++i) {
    const BFloat16 should(static_cast<float>(f32.get(i)));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(bf16.get(i))),
              std::bit_cast<std::uint32_t>(static_cast<float>(should)))
        << i;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(back.get(i))),
              std::bit_cast<std::uint32_t>(static_cast<float>(should)))
        << i;
  }
}

TEST_P(KernelContract, NumbersOutsideTheirTableAreErrors) {
  HostTensor table({DType::kF32, {4, 8}}, 0), ids({DType::kI32, {3}}, 0),
      y({DType::kF32, {3, 8}}, 0), loss({DType::kF32, {}}, 0);
  HostTensor logits({DType::kF32, {3, 4}}, 0);
  const auto run = [&](const Op& op, HostTensor& a, HostTensor& b, HostTensor& to) {
    runner->run(op, std::vector<ConstTensorRef>{a.ref(), b.ref()}, std::vector<TensorRef>{to.ref()},
                {});
  };
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message();
    }
    return "no error";
  };
  const Op cross_entropy = op_of(OpKind::kCrossEntropy, {{"scale", 1.0}});
  for (const int wrong : {4, -1}) {
    ids.set(1, wrong);
    EXPECT_NE(message([&] {
                run(op_of(OpKind::kEmbedding), table, ids, y);
              }).find("id " + std::to_string(wrong)),
              std::string::npos);
    EXPECT_NE(message([&] {
                run(cross_entropy, logits, ids, loss);
              }).find("target " + std::to_string(wrong)),
              std::string::npos);
  }
  ids.set(1, 3);  // The next is fine again.
  run(op_of(OpKind::kEmbedding), table, ids, y);
  run(cross_entropy, logits, ids, loss);
}

TEST_P(KernelContract, TheOptimizerAsTheCpuDoesIt) {
  // Odd sizes, more tensors than one launch takes, some not aligned, some without a working copy or
  // decay.
  const AdamW step{.learning_rate = 0.01, .weight_decay = 0.1, .step = 3, .gradient_scale = 0.5};
  CpuKernels cpu(detect_instruction_set());
  std::vector<std::vector<HostTensor>> is, should;
  std::vector<OptimizedParameter> parameters;
  const auto floats = [](HostTensor& t) { return t.ref().as<float>(); };
  for (std::int64_t i = 0; i < 300; ++i) {
    const std::int64_t size = i == 0 ? 9001 : i == 7 ? 0 : 1 + i % 13;
    const std::size_t offset = i % 3 == 0 ? 0 : 1;
    std::vector<HostTensor> mine, theirs;
    for (const DType type : {DType::kF32, DType::kF32, DType::kF32, DType::kF32, DType::kBF16}) {
      mine.emplace_back(TensorType{type, {size}}, offset);
      theirs.emplace_back(TensorType{type, {size}}, offset);
      for (std::int64_t e = 0; e < size; ++e) {
        mine.back().set(e, std::abs(normal(random)));
        theirs.back().set(e, mine.back().get(e));
      }
    }
    const auto parameter = [&](std::vector<HostTensor>& t) {
      return OptimizedParameter{floats(t[0]), floats(t[1]), floats(t[2]),
                                floats(t[3]), i % 2 == 0,   i % 5 == 4 ? TensorRef{} : t[4].ref()};
    };
    is.push_back(std::move(mine));
    should.push_back(std::move(theirs));
    cpu.adamw(step, parameter(should.back()));
    parameters.push_back(parameter(is.back()));
  }
  runner->adamw(step, parameters);
  for (std::size_t i = 0; i < is.size(); ++i) {
    for (std::size_t t = 0; t < 5; ++t) {
      for (std::int64_t e = 0; e < is[i][t].type.elements(); ++e) {
        const double allowed = std::abs(should[i][t].get(e)) * (t == 4 ? 0.008 : 1e-6) + 5e-7;
        ASSERT_NEAR(is[i][t].get(e), should[i][t].get(e), allowed)
            << "parameter " << i << ", tensor " << t << ", element " << e;
      }
    }
  }
}

TEST_P(KernelContract, SumsOfSquaresAndAdd) {
  std::vector<HostTensor> tensors;
  std::vector<std::span<const float>> spans;
  std::vector<double> should;
  for (std::int64_t i = 0; i < 270; ++i) {
    tensors.emplace_back(TensorType{DType::kF32,
                                    {i == 3   ? 40001
                                     : i == 5 ? 0
                                              : i % 9}},
                         static_cast<std::size_t>(i % 2));
    double sum = 0;
    for (std::int64_t e = 0; e < tensors.back().type.elements(); ++e) {
      tensors.back().set(e, normal(random));
      sum += tensors.back().get(e) * tensors.back().get(e);
    }
    should.push_back(sum);
    spans.push_back(tensors.back().ref().as<float>());
  }
  std::vector<double> results(spans.size(), -1);
  runner->sums_of_squares(spans, results);
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_NEAR(results[i], should[i], 1e-12 * should[i]) << i;

  HostTensor from({DType::kF32, {1003}}, 0), to({DType::kF32, {1003}}, 1);
  for (std::int64_t e = 0; e < 1003; ++e) {
    from.set(e, normal(random));
    to.set(e, static_cast<double>(e));
  }
  runner->add(from.ref().as<float>(), to.ref().as<float>());
  for (std::int64_t e = 0; e < 1003; ++e)
    EXPECT_EQ(to.get(e),
              static_cast<double>(static_cast<float>(e) + static_cast<float>(from.get(e))));
}

INSTANTIATE_TEST_SUITE_P(, KernelContract, testing::ValuesIn(kernel_runners()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace weft::test

// Every op in bf16: the types that it takes and gives, and its CPU kernel, which is the f32 one
// between conversions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/cpu/cpu_device.h"
#include "core/ops/op_definition.h"
#include "core/tensor/bfloat16.h"
#include "tests/support/op_cases.h"

namespace weft {
namespace {

using test::OpCase;
using ::testing::HasSubstr;

/// Ops that give gradients of parameters, and losses.
const std::set<OpKind> kF32Results{
    OpKind::kSumLeading,          OpKind::kLinearWeightGrad,    OpKind::kConvolutionWeightGrad,
    OpKind::kLayerNormWeightGrad, OpKind::kGroupNormWeightGrad, OpKind::kEmbeddingGrad,
    OpKind::kCrossEntropy,        OpKind::kSquaredError,        OpKind::kLinearWeightGradSum};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "no error";
}

TEST(BF16Types, TheCasesCoverEveryOp) {
  std::set<OpKind> covered{OpKind::kEmulatedBlock, OpKind::kEmulatedInputGrad,
                           OpKind::kEmulatedWeightGrad, OpKind::kToBF16, OpKind::kToF32};
  for (const OpCase& c : test::op_cases()) covered.insert(c.op.kind);
  EXPECT_EQ(covered.size(), static_cast<std::size_t>(last_enumerator<OpKind>::kValue) + 1);
}

TEST(BF16Types, GradientsOfParametersAndLossesAreF32AndAllElseBf16) {
  for (const OpCase& c : test::op_cases()) {
    const std::vector<TensorType> f32 = infer_types(c.op, c.inputs),
                                  bf16 = infer_types(c.op, test::in_bf16(c).inputs);
    ASSERT_EQ(f32.size(), bf16.size());
    for (std::size_t i = 0; i < f32.size(); ++i) {
      EXPECT_EQ(f32[i].dtype, DType::kF32) << to_string(c.op);
      const bool is_f32 = kF32Results.contains(c.op.kind) || test::is_statistics(c.op, i);
      EXPECT_EQ(bf16[i].dtype, is_f32 ? DType::kF32 : DType::kBF16) << to_string(c.op);
      EXPECT_EQ(bf16[i].shape, f32[i].shape) << to_string(c.op);
    }
  }
}

TEST(BF16Types, MixturesAreRefused) {
  for (const OpCase& c : test::op_cases()) {
    std::size_t followers = 0;
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      followers += test::follows_precision(c, i) ? 1 : 0;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      if (c.inputs[i].dtype != DType::kF32) continue;
      OpCase mixed = test::in_bf16(c);
      if (test::follows_precision(c, i)) {
        if (followers == 1) continue;  // f32 throughout
        mixed.inputs[i].dtype = DType::kF32;
        EXPECT_THAT(message_of([&] { infer_types(mixed.op, mixed.inputs); }),
                    HasSubstr("must have one element type"));
      } else {
        mixed.inputs[i].dtype = DType::kBF16;
        EXPECT_THAT(message_of([&] { infer_types(mixed.op, mixed.inputs); }),
                    HasSubstr("must be f32"));
      }
    }
  }
  const std::vector<TensorType> mixed{{DType::kBF16, {2, 8}}, {DType::kF32, {8, 4}}};
  EXPECT_EQ(message_of([&] {
              infer_types({OpKind::kLinear, {}}, mixed);
            }),
            "linear(bf16[2,8], f32[8,4]): inputs 0 and 1 must have one element type: convert one "
            "of them");
  const std::vector<TensorType> whole{{DType::kI32, {2, 8}}};
  EXPECT_EQ(message_of([&] {
              infer_types({OpKind::kGelu, {}}, whole);
            }),
            "gelu(i32[2,8]): input 0 must be f32 or bf16");
  EXPECT_EQ(message_of([&] {
              infer_types({OpKind::kToF32, {}}, whole);
            }),
            "to_f32(i32[2,8]): the input must be bf16");
}

/// A tensor of any type, as floats where it holds some.
struct FloatTensor {
  TensorType type;
  std::vector<std::byte> bytes;

  explicit FloatTensor(TensorType t) : type(std::move(t)), bytes(type.bytes()) {}
  TensorRef ref() { return {type, bytes.data()}; }
  std::vector<float> floats() {
    std::vector<float> values(static_cast<std::size_t>(type.elements()));
    if (type.dtype == DType::kBF16) convert(ref().as<BFloat16>(), values);
    if (type.dtype == DType::kF32) std::ranges::copy(ref().as<float>(), values.begin());
    return values;
  }
  void set(const std::vector<float>& values) {
    if (type.dtype == DType::kBF16) convert(values, ref().as<BFloat16>());
    if (type.dtype == DType::kF32) std::ranges::copy(values, ref().as<float>().begin());
  }
};

/// Numbers that bf16 holds too, or ids.
FloatTensor random_float_tensor(const TensorType& type, PhiloxStream& random) {
  FloatTensor tensor(type);
  std::vector<float> values;
  for (std::int64_t i = 0; i < type.elements(); ++i) {
    values.push_back(
        static_cast<float>(BFloat16(4 * uniform_float(static_cast<std::uint32_t>(random())) - 2)));
    if (type.dtype == DType::kI32)
      tensor.ref().as<std::int32_t>()[static_cast<std::size_t>(i)] =
          static_cast<int>(random.below(7));
  }
  tensor.set(values);
  return tensor;
}

/// Runs the op on the inputs, in the element types of `c`; accumulates all outputs onto 1 with
/// `mode` kAccumulate.
std::vector<FloatTensor> run_converted(const OpCase& c, std::vector<FloatTensor>& inputs,
                                       OutputMode mode) {
  CpuDevice device;
  const auto stream = device.create_stream();
  std::vector<FloatTensor> converted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    converted.push_back(inputs[i]);
    if (inputs[i].type == c.inputs[i]) continue;
    converted.back() = FloatTensor(c.inputs[i]);
    converted.back().set(inputs[i].floats());
  }
  std::vector<ConstTensorRef> in;
  for (FloatTensor& tensor : converted) in.push_back(tensor.ref());
  std::vector<FloatTensor> outputs;
  for (const TensorType& type : infer_types(c.op, c.inputs)) {
    outputs.emplace_back(type).set(
        std::vector<float>(static_cast<std::size_t>(type.elements()), 1.0f));
  }
  std::vector<TensorRef> out;
  for (FloatTensor& tensor : outputs) out.push_back(tensor.ref());
  const std::vector<OutputMode> modes(outputs.size(), mode);
  stream->run(c.op, in, out, modes);
  return outputs;
}

TEST(BF16Kernels, ComputeInF32AndRoundOnce) {
  PhiloxStream random(7);
  for (const OpCase& c : test::op_cases()) {
    std::vector<FloatTensor> inputs;
    for (const TensorType& type : c.inputs) inputs.push_back(random_float_tensor(type, random));
    std::vector<FloatTensor> f32 = run_converted(c, inputs, OutputMode::kWrite),
                             bf16 = run_converted(test::in_bf16(c), inputs, OutputMode::kWrite);
    for (std::size_t i = 0; i < f32.size(); ++i) {
      FloatTensor expected(bf16[i].type);
      expected.set(f32[i].floats());
      EXPECT_EQ(bf16[i].bytes, expected.bytes) << to_string(c.op) << " output " << i;
    }
  }
}

TEST(BF16Kernels, OnlyF32OutputsAccumulate) {
  PhiloxStream random(8);
  for (const OpCase& c : test::op_cases()) {
    std::vector<FloatTensor> inputs;
    for (const TensorType& type : c.inputs) inputs.push_back(random_float_tensor(type, random));
    const OpCase bf16 = test::in_bf16(c);
    if (!kF32Results.contains(c.op.kind)) {
      EXPECT_THAT(message_of([&] { run_converted(bf16, inputs, OutputMode::kAccumulate); }),
                  HasSubstr("only f32 outputs can be accumulated"));
      continue;
    }
    std::vector<FloatTensor> once = run_converted(c, inputs, OutputMode::kAccumulate),
                             sums = run_converted(bf16, inputs, OutputMode::kAccumulate);
    for (std::size_t i = 0; i < sums.size(); ++i)
      EXPECT_EQ(sums[i].bytes, once[i].bytes) << to_string(c.op);
  }
}

TEST(BF16Kernels, ConversionsRoundToNearestEvenAndBack) {
  const OpCase down{{OpKind::kToBF16, {}}, {{DType::kF32, {3}}}},
      up{{OpKind::kToF32, {}}, {{DType::kBF16, {3}}}};
  std::vector<FloatTensor> inputs{FloatTensor(down.inputs[0])};
  inputs[0].set({1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, -2.5f});
  std::vector<FloatTensor> rounded = run_converted(down, inputs, OutputMode::kWrite);
  EXPECT_THAT(run_converted(up, rounded, OutputMode::kWrite)[0].floats(),
              ::testing::ElementsAre(1.0f, 1.0f + 0x1p-6f, -2.5f));
  EXPECT_THAT(run_converted(up, rounded, OutputMode::kAccumulate)[0].floats(),
              ::testing::ElementsAre(2.0f, 2.0f + 0x1p-6f, -1.5f));
}

}  // namespace
}  // namespace weft

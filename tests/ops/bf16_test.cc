// Tests every op in bf16: its input and output types, and its CPU kernel, which converts to f32,
// runs the f32 kernel and converts back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/cpu/cpu_device.h"
#include "core/ops/op_definition.h"
#include "core/tensor/bfloat16.h"
#include "tests/support/op_cases/op_cases.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

using test::Holds;
using test::OpCase;
using ::testing::HasSubstr;

TEST(OpCases, CoverEveryOpAndHaveAReferenceOfAllThatHaveAGradient) {
  const std::set<OpKind> others{OpKind::kEmulatedBlock, OpKind::kEmulatedInputGrad,
                                OpKind::kEmulatedWeightGrad, OpKind::kToBF16, OpKind::kToF32};
  const test::OpCases cases = test::op_cases();
  std::set<OpKind> covered;
  for (const OpCase& c : cases.cases) covered.insert(c.op.kind);
  for (std::size_t i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    EXPECT_NE(covered.contains(kind), others.contains(kind)) << to_string(kind);
    if (others.contains(kind) || definition(kind).differentiate == nullptr) continue;
    EXPECT_TRUE(cases.references.contains(kind)) << to_string(kind);
  }
}

TEST(BF16Types, GradientsOfParametersAndLossesAreF32AndAllElseBf16) {
  for (const OpCase& c : test::op_cases().cases) {
    const std::vector<TensorType> f32 = infer_types(c.op, c.types()),
                                  bf16 = infer_types(c.op, c.types(DType::kBF16));
    ASSERT_EQ(f32.size(), bf16.size());
    for (std::size_t i = 0; i < f32.size(); ++i) {
      EXPECT_EQ(f32[i].dtype, DType::kF32) << to_string(c);
      EXPECT_EQ(bf16[i].dtype, c.is_f32(i) ? DType::kF32 : DType::kBF16) << to_string(c);
      EXPECT_EQ(bf16[i].shape, f32[i].shape) << to_string(c);
    }
  }
}

TEST(BF16Types, MixturesAreRefused) {
  for (const OpCase& c : test::op_cases().cases) {
    const auto reals = std::ranges::count(c.inputs, Holds::kReal, &test::InputCase::holds);
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      std::vector<TensorType> mixed = c.types(DType::kBF16);
      if (c.inputs[i].holds == Holds::kReal && reals > 1) {  // a single one makes the op f32
        mixed[i].dtype = DType::kF32;
        EXPECT_THAT(
            test::error_message(ErrorCode::kInvalidArgument, [&] { infer_types(c.op, mixed); }),
            HasSubstr("must have one element type"));
      } else if (c.inputs[i].holds == Holds::kF32) {
        mixed[i].dtype = DType::kBF16;
        EXPECT_THAT(
            test::error_message(ErrorCode::kInvalidArgument, [&] { infer_types(c.op, mixed); }),
            HasSubstr("must be f32"));
      }
    }
  }
  const std::vector<TensorType> mixed{{DType::kBF16, {2, 8}}, {DType::kF32, {8, 4}}};
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidArgument,
                                [&] {
                                  infer_types({OpKind::kLinear, {}}, mixed);
                                }),
            "linear(bf16[2,8], f32[8,4]): inputs 0 and 1 must have one element type: convert one "
            "of them");
  const std::vector<TensorType> whole{{DType::kI32, {2, 8}}};
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidArgument,
                                [&] {
                                  infer_types({OpKind::kGelu, {}}, whole);
                                }),
            "gelu(i32[2,8]): input 0 must be f32 or bf16");
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidArgument,
                                [&] {
                                  infer_types({OpKind::kToF32, {}}, whole);
                                }),
            "to_f32(i32[2,8]): the input must be bf16");
}

/// Tensor of any type, with access to bf16 and f32 elements as floats.
struct FloatTensor {
  TensorType type;
  std::vector<std::byte> bytes;

  explicit FloatTensor(TensorType t) : type(std::move(t)), bytes(type.bytes()) {}
  TensorRef ref() { return {type, bytes.data()}; }
  std::vector<float> floats() {
    std::vector<float> values(type.elements());
    if (type.dtype == DType::kBF16) convert(ref().as<BFloat16>(), values);
    if (type.dtype == DType::kF32) std::ranges::copy(ref().as<float>(), values.begin());
    return values;
  }
  void set(const std::vector<float>& values) {
    if (type.dtype == DType::kBF16) convert(values, ref().as<BFloat16>());
    if (type.dtype == DType::kF32) std::ranges::copy(values, ref().as<float>().begin());
  }
};

/// Makes random inputs: numbers that bf16 represents exactly, or ids.
std::vector<FloatTensor> random_float_tensors(const OpCase& c, PhiloxStream& random) {
  std::vector<FloatTensor> tensors;
  for (const TensorType& type : c.types()) {
    FloatTensor& tensor = tensors.emplace_back(type);
    std::vector<float> values;
    for (std::int64_t i = 0; i < type.elements(); ++i) {
      const float number = 4 * uniform_float(static_cast<std::uint32_t>(random())) - 2;
      values.push_back(static_cast<float>(BFloat16(c.positive ? std::abs(number) : number)));
      if (type.dtype == DType::kI32) {
        tensor.ref().as<std::int32_t>()[i] = static_cast<std::int32_t>(random.below(c.ids_below));
      }
    }
    tensor.set(values);
  }
  return tensors;
}

/// Runs the op on the inputs converted to `types`. With kAccumulate, outputs are initially 1.
std::vector<FloatTensor> run_converted(const Op& op, const std::vector<TensorType>& types,
                                       std::vector<FloatTensor>& inputs, OutputMode mode) {
  CpuDevice device;
  const auto stream = device.create_stream();
  std::vector<FloatTensor> converted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    converted.push_back(inputs[i]);
    if (inputs[i].type == types[i]) continue;
    converted.back() = FloatTensor(types[i]);
    converted.back().set(inputs[i].floats());
  }
  std::vector<ConstTensorRef> in;
  for (FloatTensor& tensor : converted) in.push_back(tensor.ref());
  std::vector<FloatTensor> outputs;
  for (const TensorType& type : infer_types(op, types)) {
    outputs.emplace_back(type).set(std::vector<float>(type.elements(), 1.0f));
  }
  std::vector<TensorRef> out;
  for (FloatTensor& tensor : outputs) out.push_back(tensor.ref());
  const std::vector<OutputMode> modes(outputs.size(), mode);
  stream->run(op, in, out, modes);
  return outputs;
}

TEST(BF16Kernels, ComputeInF32AndRoundOnce) {
  PhiloxStream random(7);
  for (const OpCase& c : test::op_cases().cases) {
    std::vector<FloatTensor> inputs = random_float_tensors(c, random);
    std::vector<FloatTensor> f32 = run_converted(c.op, c.types(), inputs, OutputMode::kWrite),
                             bf16 = run_converted(c.op, c.types(DType::kBF16), inputs,
                                                  OutputMode::kWrite);
    for (std::size_t i = 0; i < f32.size(); ++i) {
      FloatTensor expected(bf16[i].type);
      expected.set(f32[i].floats());
      EXPECT_EQ(bf16[i].bytes, expected.bytes) << to_string(c) << " output " << i;
    }
  }
}

TEST(BF16Kernels, OnlyF32OutputsAccumulate) {
  PhiloxStream random(8);
  for (const OpCase& c : test::op_cases().cases) {
    std::vector<FloatTensor> inputs = random_float_tensors(c, random);
    const auto accumulate = [&](DType precision) {
      return run_converted(c.op, c.types(precision), inputs, OutputMode::kAccumulate);
    };
    std::vector<FloatTensor> once = accumulate(DType::kF32);
    if (c.f32_outputs.size() < once.size()) {
      EXPECT_THAT(
          test::error_message(ErrorCode::kInvalidArgument, [&] { accumulate(DType::kBF16); }),
          HasSubstr("only f32 outputs can be accumulated"));
      continue;
    }
    const std::vector<FloatTensor> sums = accumulate(DType::kBF16);
    for (std::size_t i = 0; i < sums.size(); ++i)
      EXPECT_EQ(sums[i].bytes, once[i].bytes) << to_string(c);
  }
}

TEST(BF16Kernels, ConversionsRoundToNearestEvenAndBack) {
  const TensorType f32{DType::kF32, {3}}, bf16{DType::kBF16, {3}};
  const auto down = [&](std::vector<FloatTensor>& from) {
    return run_converted({OpKind::kToBF16, {}}, {f32}, from, OutputMode::kWrite);
  };
  const auto up = [&](std::vector<FloatTensor>& from, OutputMode mode) {
    return run_converted({OpKind::kToF32, {}}, {bf16}, from, mode)[0].floats();
  };
  std::vector<FloatTensor> inputs{FloatTensor(f32)};
  inputs[0].set({1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, -2.5f});
  std::vector<FloatTensor> rounded = down(inputs);
  EXPECT_THAT(up(rounded, OutputMode::kWrite), ::testing::ElementsAre(1.0f, 1.0f + 0x1p-6f, -2.5f));
  EXPECT_THAT(up(rounded, OutputMode::kAccumulate),
              ::testing::ElementsAre(2.0f, 2.0f + 0x1p-6f, -1.5f));
}

}  // namespace
}  // namespace weft

// Every factor signature, numerically: for each factor that may be split, run the op on shards (two, and
// three uneven ones), put the outputs together (or add them up), and compare with the whole op.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/philox.h"
#include "core/device_cpu/cpu_device.h"
#include "core/ops/op_definition.h"
#include "core/tensor/region.h"

namespace weft {
namespace {

struct Tensor {
  TensorType type;
  std::vector<std::byte> bytes;

  explicit Tensor(TensorType t) : type(std::move(t)), bytes(type.bytes()) {}
  float* floats() { return reinterpret_cast<float*>(bytes.data()); }
  const float* floats() const { return reinterpret_cast<const float*>(bytes.data()); }
};

struct Case {
  Op op;
  std::vector<TensorType> inputs;
};

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
TensorType i32(Shape shape) { return {DType::kI32, std::move(shape)}; }

std::vector<Case> cases() {
  const auto number = [](std::int64_t n) { return Attribute(n); };
  return {
      {{OpKind::kAdd, {}}, {f32({4, 5, 6}), f32({4, 5, 6})}},
      {{OpKind::kAdd, {}}, {f32({4, 5, 6}), f32({5, 6})}},
      {{OpKind::kSumLeading, {{"dimensions", number(2)}}}, {f32({4, 5, 3, 6})}},
      {{OpKind::kLinear, {}}, {f32({4, 5, 8}), f32({8, 6})}},
      {{OpKind::kLinear, {}}, {f32({4, 5, 8}), f32({8, 3, 6}), f32({3, 6})}},
      {{OpKind::kLinearInputGrad, {}}, {f32({4, 5, 3, 6}), f32({8, 3, 6})}},
      {{OpKind::kLinearWeightGrad, {}}, {f32({4, 5, 8}), f32({4, 5, 3, 6})}},
      {{OpKind::kGelu, {}}, {f32({4, 7})}},
      {{OpKind::kGeluGrad, {}}, {f32({4, 7}), f32({4, 7})}},
      {{OpKind::kLayerNorm, {{"epsilon", 1e-5}}}, {f32({4, 5, 16}), f32({16}), f32({16})}},
      {{OpKind::kLayerNormInputGrad, {{"epsilon", 1e-5}}}, {f32({4, 5, 16}), f32({16}), f32({4, 5, 16})}},
      {{OpKind::kLayerNormWeightGrad, {{"epsilon", 1e-5}}}, {f32({4, 5, 16}), f32({4, 5, 16})}},
      {{OpKind::kAttention, {{"head_dim", number(4)}}}, {f32({3, 9, 3, 16})}},
      {{OpKind::kAttentionGrad, {{"head_dim", number(4)}}}, {f32({3, 9, 3, 16}), f32({3, 9, 16})}},
      {{OpKind::kEmbedding, {}}, {f32({7, 6}), i32({4, 5})}},
      {{OpKind::kEmbeddingGrad, {{"rows", number(7)}}}, {i32({4, 5}), f32({4, 5, 6})}},
      {{OpKind::kCrossEntropy, {{"scale", 0.1}}}, {f32({4, 5, 7}), i32({4, 5})}},
      {{OpKind::kCrossEntropyGrad, {{"scale", 0.1}}}, {f32({4, 5, 7}), i32({4, 5})}},
      {{OpKind::kCrossEntropy, {{"scale", 0.1}}}, {f32({4, 5, 7}), i32({4, 5}), f32({4, 5})}},
      {{OpKind::kCrossEntropyGrad, {{"scale", 0.1}}}, {f32({4, 5, 7}), i32({4, 5}), f32({4, 5})}},
      {{OpKind::kSquaredError, {{"scale", 0.1}}}, {f32({4, 5, 7}), f32({4, 5, 7})}},
      {{OpKind::kSquaredErrorGrad, {{"scale", 0.1}}}, {f32({4, 5, 7}), f32({4, 5, 7})}},
      {{OpKind::kSilu, {}}, {f32({4, 7})}},
      {{OpKind::kSiluGrad, {}}, {f32({4, 7}), f32({4, 7})}},
      {{OpKind::kSigmoid, {}}, {f32({4, 7})}},
      {{OpKind::kSigmoidGrad, {}}, {f32({4, 7}), f32({4, 7})}},
      {{OpKind::kMultiply, {}}, {f32({4, 7}), f32({4, 7})}},
      {{OpKind::kConvolution, {{"stride", number(1)}, {"padding", number(1)}}}, {f32({3, 5, 4, 6}), f32({3, 3, 6, 8})}},
      {{OpKind::kConvolution, {{"stride", number(2)}, {"padding", number(1)}}}, {f32({3, 7, 6, 6}), f32({3, 3, 6, 8}), f32({8})}},
      {{OpKind::kConvolutionInputGrad,
        {{"stride", number(2)}, {"padding", number(1)}, {"height", number(7)}, {"width", number(6)}}},
       {f32({3, 4, 3, 8}), f32({3, 3, 6, 8})}},
      {{OpKind::kConvolutionWeightGrad,
        {{"stride", number(2)}, {"padding", number(1)}, {"kernel_height", number(3)}, {"kernel_width", number(3)}}},
       {f32({3, 7, 6, 6}), f32({3, 4, 3, 8})}},
      {{OpKind::kGroupNorm, {{"group_size", number(4)}, {"epsilon", 1e-5}}}, {f32({3, 5, 2, 16}), f32({16}), f32({16})}},
      {{OpKind::kGroupNormInputGrad, {{"group_size", number(4)}, {"epsilon", 1e-5}}},
       {f32({3, 5, 2, 16}), f32({16}), f32({3, 5, 2, 16})}},
      {{OpKind::kGroupNormWeightGrad, {{"group_size", number(4)}, {"epsilon", 1e-5}}}, {f32({3, 5, 2, 16}), f32({3, 5, 2, 16})}},
      {{OpKind::kUpsample, {{"factor", number(2)}}}, {f32({3, 4, 3, 5})}},
      {{OpKind::kUpsampleGrad, {{"factor", number(2)}}}, {f32({3, 4, 6, 5})}},
      {{OpKind::kConcat, {}}, {f32({3, 4, 5}), f32({3, 4, 7})}},
      {{OpKind::kSlice, {{"begin", number(2)}, {"size", number(4)}}}, {f32({3, 4, 7})}},
      {{OpKind::kAddChannels, {}}, {f32({3, 4, 5, 6}), f32({3, 6})}},
      {{OpKind::kSumPositions, {}}, {f32({3, 4, 5, 6})}},
      {{OpKind::kCrossAttention, {{"head_dim", number(4)}}}, {f32({3, 3, 2, 16}), f32({3, 5, 16}), f32({3, 5, 16})}},
      {{OpKind::kCrossAttentionGrad, {{"head_dim", number(4)}}},
       {f32({3, 3, 2, 16}), f32({3, 5, 16}), f32({3, 5, 16}), f32({3, 3, 2, 16})}},
  };
}

Tensor random_tensor(const TensorType& type, PhiloxStream& random) {
  Tensor tensor(type);
  for (std::int64_t i = 0; i < type.elements(); ++i) {
    if (type.dtype == DType::kI32) {
      reinterpret_cast<std::int32_t*>(tensor.bytes.data())[i] = static_cast<std::int32_t>(random.below(7));
    } else {
      tensor.floats()[i] = 4 * uniform_float(static_cast<std::uint32_t>(random())) - 2;
    }
  }
  return tensor;
}

std::vector<Tensor> run(const Op& op, const std::vector<Tensor>& inputs) {
  CpuDevice device;
  const auto stream = device.create_stream();
  std::vector<TensorType> types;
  std::vector<ConstTensorRef> in;
  for (const Tensor& tensor : inputs) {
    types.push_back(tensor.type);
    in.push_back({tensor.type, tensor.bytes.data()});
  }
  std::vector<Tensor> outputs;
  for (const TensorType& type : infer_types(op, types)) outputs.emplace_back(type);
  std::vector<TensorRef> out;
  for (Tensor& tensor : outputs) out.push_back({tensor.type, tensor.bytes.data()});
  stream->run(op, in, out);
  return outputs;
}

/// The part of a tensor that a shard [begin, end) of `factor` has: a slice where a dimension names the
/// factor.
Region shard_region(const TensorType& type, const std::vector<int>& dimensions, int factor, Interval range) {
  std::vector<Interval> intervals;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    intervals.push_back(dimensions[d] == factor ? range : Interval{0, type.shape[d]});
  }
  return Region(intervals);
}

Tensor slice(const Tensor& whole, const Region& region) {
  Tensor part({whole.type.dtype, region.shape()});
  copy_region(region, size_of(whole.type.dtype), Region::whole(whole.type.shape), whole.bytes, region, part.bytes);
  return part;
}

/// Shards of `size` in units of `granularity`: an uneven division where there are enough units.
std::vector<Interval> shards(std::int64_t size, std::int64_t granularity, std::int64_t parts) {
  const std::int64_t units = size / granularity;
  std::vector<Interval> result;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t count = units / parts + (i < units % parts ? 1 : 0);
    if (count == 0) continue;
    result.push_back({begin * granularity, (begin + count) * granularity});
    begin += count;
  }
  return result;
}

void expect_near(const Tensor& actual, const Tensor& expected, const std::string& where) {
  ASSERT_EQ(actual.type, expected.type) << where;
  for (std::int64_t i = 0; i < expected.type.elements(); ++i) {
    ASSERT_NEAR(actual.floats()[i], expected.floats()[i], 1e-5 + 1e-5 * std::abs(expected.floats()[i]))
        << where << " element " << i;
  }
}

void check_factor(const Case& c, const FactorSignature& signature, int factor, std::int64_t parts,
                  const std::vector<Tensor>& inputs, const std::vector<Tensor>& whole) {
  const Factor& f = signature.factors[static_cast<std::size_t>(factor)];
  const std::string where = fmt::format("{} {} factor {} in {}", to_string(c.op), to_string(signature), factor, parts);
  std::vector<Tensor> combined;
  for (const Tensor& output : whole) combined.emplace_back(output.type);
  bool first = true;
  for (const Interval& range : shards(f.size, f.granularity, parts)) {
    std::vector<Tensor> shard_inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool once = std::ranges::count(signature.once_inputs, static_cast<int>(i)) > 0;
      if (f.kind == FactorKind::kReduction && once && !first) continue;
      shard_inputs.push_back(slice(inputs[i], shard_region(inputs[i].type, signature.inputs[i], factor, range)));
    }
    const std::vector<Tensor> part = run(c.op, shard_inputs);
    for (std::size_t o = 0; o < whole.size(); ++o) {
      const Region region = shard_region(whole[o].type, signature.outputs[o], factor, range);
      ASSERT_EQ(part[o].type.shape, region.shape()) << where;
      if (f.kind == FactorKind::kReduction) {
        for (std::int64_t i = 0; i < part[o].type.elements(); ++i) combined[o].floats()[i] += part[o].floats()[i];
      } else {
        copy_region(region, sizeof(float), region, part[o].bytes, Region::whole(whole[o].type.shape), combined[o].bytes);
      }
    }
    first = false;
  }
  for (std::size_t o = 0; o < whole.size(); ++o) expect_near(combined[o], whole[o], where);
}

TEST(Signature, EveryFactorThatMayBeSplitGivesTheWholeResult) {
  PhiloxStream random(3);
  for (const Case& c : cases()) {
    std::vector<Tensor> inputs;
    for (const TensorType& type : c.inputs) inputs.push_back(random_tensor(type, random));
    const FactorSignature signature = factor_signature(c.op, c.inputs);
    const std::vector<Tensor> whole = run(c.op, inputs);
    for (std::size_t factor = 0; factor < signature.factors.size(); ++factor) {
      if (signature.factors[factor].kind == FactorKind::kWhole) continue;
      for (const std::int64_t parts : {2, 3}) check_factor(c, signature, static_cast<int>(factor), parts, inputs, whole);
    }
  }
}

TEST(Signature, FactorsHaveTheSizesOfTheirDimensions) {
  for (const Case& c : cases()) {
    const FactorSignature signature = factor_signature(c.op, c.inputs);
    const std::vector<TensorType> outputs = infer_types(c.op, c.inputs);
    const auto check = [&](const std::vector<std::vector<int>>& tensors, const std::vector<TensorType>& types) {
      ASSERT_EQ(tensors.size(), types.size()) << to_string(c.op);
      for (std::size_t t = 0; t < types.size(); ++t) {
        ASSERT_EQ(tensors[t].size(), types[t].shape.size()) << to_string(c.op);
        for (std::size_t d = 0; d < tensors[t].size(); ++d) {
          EXPECT_EQ(signature.factors[static_cast<std::size_t>(tensors[t][d])].size, types[t].shape[d]) << to_string(c.op);
        }
      }
    };
    check(signature.inputs, c.inputs);
    check(signature.outputs, outputs);
  }
}

TEST(Signature, ReductionFactorsAppearInNoOutputAndParallelOnesInAll) {
  for (const Case& c : cases()) {
    const FactorSignature signature = factor_signature(c.op, c.inputs);
    for (std::size_t factor = 0; factor < signature.factors.size(); ++factor) {
      for (const auto& output : signature.outputs) {
        const auto count = std::ranges::count(output, static_cast<int>(factor));
        const FactorKind kind = signature.factors[factor].kind;
        if (kind != FactorKind::kWhole) {
          EXPECT_EQ(count, kind == FactorKind::kParallel ? 1 : 0) << to_string(c.op);
        }
      }
    }
  }
}

TEST(Signature, PartialInputsGivePartialOutputsWhereTheOpIsLinear) {
  PhiloxStream random(4);
  for (const Case& c : cases()) {
    std::vector<Tensor> inputs;
    for (const TensorType& type : c.inputs) inputs.push_back(random_tensor(type, random));
    const FactorSignature signature = factor_signature(c.op, c.inputs);
    const std::vector<Tensor> whole = run(c.op, inputs);
    for (const std::vector<int>& set : signature.linear_in) {
      std::vector<Tensor> first = inputs, second;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (std::ranges::count(signature.once_inputs, static_cast<int>(i)) > 0) continue;
        second.push_back(inputs[i]);
        if (std::ranges::count(set, static_cast<int>(i)) == 0) continue;
        const Tensor noise = random_tensor(inputs[i].type, random);
        for (std::int64_t e = 0; e < noise.type.elements(); ++e) {
          first[i].floats()[e] -= noise.floats()[e];
          second[i].floats()[e] = noise.floats()[e];
        }
      }
      std::vector<Tensor> sum = run(c.op, first);
      const std::vector<Tensor> other = run(c.op, second);
      for (std::size_t o = 0; o < sum.size(); ++o) {
        for (std::int64_t e = 0; e < sum[o].type.elements(); ++e) sum[o].floats()[e] += other[o].floats()[e];
        expect_near(sum[o], whole[o], fmt::format("{} partial in input {}", to_string(c.op), set[0]));
      }
    }
  }
}

}  // namespace
}  // namespace weft

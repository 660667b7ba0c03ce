// Tests every factor signature numerically. For each factor that may be split, runs the op on two
// and on three uneven shards. Concatenates or sums the outputs and compares them with the whole op.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/philox.h"
#include "core/cpu/cpu_device.h"
#include "core/ops/op_definition.h"
#include "core/tensor/region.h"
#include "tests/support/op_cases/op_cases.h"

namespace weft {
namespace {

struct Tensor {
  TensorType type;
  std::vector<std::byte> bytes;

  explicit Tensor(TensorType t) : type(std::move(t)), bytes(type.bytes()) {}
  float* floats() { return reinterpret_cast<float*>(bytes.data()); }
  const float* floats() const { return reinterpret_cast<const float*>(bytes.data()); }
};

using test::OpCase;

Tensor random_tensor(const TensorType& type, std::int64_t ids_below, PhiloxStream& random) {
  Tensor tensor(type);
  for (std::int64_t i = 0; i < type.elements(); ++i) {
    if (type.dtype == DType::kI32) {
      reinterpret_cast<std::int32_t*>(tensor.bytes.data())[i] =
          static_cast<std::int32_t>(random.below(ids_below));
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

/// Makes random inputs. A gradient op gets the tensors that its forward op saved.
std::vector<Tensor> random_inputs(const OpCase& c, PhiloxStream& random) {
  std::vector<Tensor> inputs;
  for (const TensorType& type : c.types())
    inputs.push_back(random_tensor(type, c.ids_below, random));
  for (Tensor& input : inputs) {
    if (!c.positive || input.type.dtype == DType::kI32) continue;
    for (std::int64_t i = 0; i < input.type.elements(); ++i)
      input.floats()[i] = std::abs(input.floats()[i]);
  }
  if (c.kept) {
    const auto forward = inputs.begin() + c.kept->inputs;
    std::ranges::move(run(c.kept->op, {inputs.begin(), forward}), forward);
  }
  return inputs;
}

/// Returns the region of shard [begin, end) of `factor`: a slice of the dimensions that the factor
/// splits, in elements or units of the factor's granularity.
Region shard_region(const TensorType& type, const std::vector<int>& dimensions, int number,
                    const Factor& factor, Interval range) {
  std::vector<Interval> intervals;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const std::int64_t unit = factor.size / type.shape[d];
    intervals.push_back(dimensions[d] == number ? Interval{range.begin / unit, range.end / unit}
                                                : Interval{0, type.shape[d]});
  }
  return Region(intervals);
}

Tensor slice(const Tensor& whole, const Region& region) {
  Tensor part({whole.type.dtype, region.shape()});
  copy_region(region, size_of(whole.type.dtype), Region::whole(whole.type.shape), whole.bytes,
              region, part.bytes);
  return part;
}

/// Divides `size` into `parts` intervals in units of `granularity`, unevenly if there are enough
/// units.
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

/// Compares element by element. `size` is OpCase::size.
void expect_near(const Tensor& actual, const Tensor& expected, double size,
                 const std::string& where) {
  ASSERT_EQ(actual.type, expected.type) << where;
  for (std::int64_t i = 0; i < expected.type.elements(); ++i) {
    if (actual.floats()[i] == expected.floats()[i]) continue;  // equal infinities
    ASSERT_NEAR(actual.floats()[i], expected.floats()[i],
                1e-5 * (std::max(1.0, size / 4) + std::abs(expected.floats()[i])))
        << where << " element " << i;
  }
}

void check_factor(const OpCase& c, const FactorSignature& signature, int factor, std::int64_t parts,
                  const std::vector<Tensor>& inputs, const std::vector<Tensor>& whole) {
  const Factor& f = signature.factors[factor];
  const std::string where =
      fmt::format("{} {} factor {} in {}", to_string(c), to_string(signature), factor, parts);
  std::vector<Tensor> combined;
  for (const Tensor& output : whole) combined.emplace_back(output.type);
  bool first = true;
  for (const Interval& range : shards(f.size, f.granularity, parts)) {
    std::vector<Tensor> shard_inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool once = std::ranges::count(signature.single_device_inputs, static_cast<int>(i)) > 0;
      if (f.kind == FactorKind::kReduction && once && !first) continue;
      shard_inputs.push_back(
          slice(inputs[i], shard_region(inputs[i].type, signature.inputs[i], factor, f, range)));
    }
    const bool located = signature.sliced_factor == factor;
    const std::vector<Tensor> part =
        run(located ? op_of_slice(c.op, range.begin, range.size()) : c.op, shard_inputs);
    for (std::size_t o = 0; o < whole.size(); ++o) {
      const Region region = shard_region(whole[o].type, signature.outputs[o], factor, f, range);
      ASSERT_EQ(part[o].type.shape, region.shape()) << where;
      if (f.kind == FactorKind::kReduction) {
        for (std::int64_t i = 0; i < part[o].type.elements(); ++i)
          combined[o].floats()[i] += part[o].floats()[i];
      } else {
        copy_region(region, sizeof(float), region, part[o].bytes,
                    Region::whole(whole[o].type.shape), combined[o].bytes);
      }
    }
    first = false;
  }
  for (std::size_t o = 0; o < whole.size(); ++o) expect_near(combined[o], whole[o], c.size, where);
}

TEST(Signature, EveryFactorThatMayBeSplitGivesTheWholeResult) {
  PhiloxStream random(3);
  for (const OpCase& c : test::op_cases().cases) {
    const std::vector<Tensor> inputs = random_inputs(c, random);
    const FactorSignature signature = factor_signature(c.op, c.types());
    const std::vector<Tensor> whole = run(c.op, inputs);
    for (std::size_t factor = 0; factor < signature.factors.size(); ++factor) {
      if (signature.factors[factor].kind == FactorKind::kWhole) continue;
      for (const std::int64_t parts : {2, 3})
        check_factor(c, signature, factor, parts, inputs, whole);
    }
  }
}

TEST(Signature, FactorsHaveTheSizesOfTheirDimensions) {
  for (const OpCase& c : test::op_cases().cases) {
    const FactorSignature signature = factor_signature(c.op, c.types());
    const std::vector<TensorType> outputs = infer_types(c.op, c.types());
    const auto check = [&](const std::vector<std::vector<int>>& tensors,
                           const std::vector<TensorType>& types) {
      ASSERT_EQ(tensors.size(), types.size()) << to_string(c);
      for (std::size_t t = 0; t < types.size(); ++t) {
        ASSERT_EQ(tensors[t].size(), types[t].shape.size()) << to_string(c);
        for (std::size_t d = 0; d < tensors[t].size(); ++d) {
          const Factor& factor = signature.factors[tensors[t][d]];
          EXPECT_TRUE(factor.size == types[t].shape[d] ||
                      factor.size == factor.granularity * types[t].shape[d])
              << to_string(c);
        }
      }
    };
    check(signature.inputs, c.types());
    check(signature.outputs, outputs);
  }
}

TEST(Signature, ReductionFactorsAppearInNoOutputAndParallelOnesInAll) {
  for (const OpCase& c : test::op_cases().cases) {
    const FactorSignature signature = factor_signature(c.op, c.types());
    for (std::size_t factor = 0; factor < signature.factors.size(); ++factor) {
      for (const auto& output : signature.outputs) {
        const auto count = std::ranges::count(output, static_cast<int>(factor));
        const FactorKind kind = signature.factors[factor].kind;
        if (kind != FactorKind::kWhole) {
          EXPECT_EQ(count, kind == FactorKind::kParallel ? 1 : 0) << to_string(c);
        }
      }
    }
  }
}

TEST(Signature, PartialInputsGivePartialOutputsWhereTheOpIsLinear) {
  PhiloxStream random(4);
  for (const OpCase& c : test::op_cases().cases) {
    const std::vector<Tensor> inputs = random_inputs(c, random);
    const FactorSignature signature = factor_signature(c.op, c.types());
    const std::vector<Tensor> whole = run(c.op, inputs);
    for (const std::vector<int>& set : signature.linear_in) {
      std::vector<Tensor> first = inputs, second;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (std::ranges::count(signature.single_device_inputs, static_cast<int>(i)) > 0) continue;
        second.push_back(inputs[i]);
        if (std::ranges::count(set, static_cast<int>(i)) == 0) continue;
        const Tensor noise = random_tensor(inputs[i].type, c.ids_below, random);
        for (std::int64_t e = 0; e < noise.type.elements(); ++e) {
          first[i].floats()[e] -= noise.floats()[e];
          second[i].floats()[e] = noise.floats()[e];
        }
      }
      std::vector<Tensor> sum = run(c.op, first);
      const std::vector<Tensor> other = run(c.op, second);
      for (std::size_t o = 0; o < sum.size(); ++o) {
        for (std::int64_t e = 0; e < sum[o].type.elements(); ++e)
          sum[o].floats()[e] += other[o].floats()[e];
        expect_near(sum[o], whole[o], c.size,
                    fmt::format("{} partial in input {}", to_string(c), set[0]));
      }
    }
  }
}

}  // namespace
}  // namespace weft

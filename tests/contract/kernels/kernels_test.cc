// Compares every op on every runner with the CPU's f32 kernels: odd and even sizes, f32 and bf16,
// written and accumulated, in place, at aligned and unaligned addresses. Results of bf16 inputs are
// compared with the CPU's results for the same numbers in f32.
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
#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

/// Tensor in host memory, `offset` elements behind a 64-byte boundary.
struct HostTensor {
  TensorType type;
  std::vector<std::uint32_t> words;  // the elements, with 64 bytes to spare on both sides
  std::size_t begin = 0;

  HostTensor(TensorType t, std::size_t offset) : type(std::move(t)), words(type.bytes() / 4 + 48) {
    const std::size_t address = reinterpret_cast<std::uintptr_t>(words.data());
    begin = (64 - address % 64) % 64 + 64 + offset * size_of(type.dtype);
  }
  HostTensor(HostTensor&& other) noexcept = default;  // a moved vector keeps its memory
  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()) + begin; }
  TensorRef ref() { return {type, data()}; }

  double get(std::int64_t i) {
    const std::byte* const at = data() + i * size_of(type.dtype);
    if (type.dtype == DType::kBF16)
      return static_cast<float>(*reinterpret_cast<const BFloat16*>(at));
    if (type.dtype == DType::kI32) return *reinterpret_cast<const std::int32_t*>(at);
    return *reinterpret_cast<const float*>(at);
  }
  void set(std::int64_t i, double value) {
    std::byte* const at = data() + i * size_of(type.dtype);
    if (type.dtype == DType::kBF16) {
      *reinterpret_cast<BFloat16*>(at) = BFloat16(static_cast<float>(value));
    } else if (type.dtype == DType::kI32) {
      *reinterpret_cast<std::int32_t*>(at) = static_cast<std::int32_t>(value);
    } else {
      *reinterpret_cast<float*>(at) = static_cast<float>(value);
    }
  }
};

std::vector<HostTensor> make_inputs(const OpCase& c, DType real, std::size_t offset,
                                    const std::function<double()>& normal) {
  std::vector<HostTensor> inputs;
  const std::vector<TensorType> types = c.types(real);
  const double ids = c.ids_below;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Holds holds = c.inputs[i].holds;
    HostTensor& tensor = inputs.emplace_back(types[i], holds == Holds::kReal ? offset : 0);
    for (std::int64_t e = 0; e < types[i].elements(); ++e) {
      const double drawn = normal();
      const double number = c.positive ? std::abs(drawn) : drawn;
      // Small ids are frequent.
      tensor.set(e, holds == Holds::kIds
                        ? std::min(ids - 1, std::floor(std::abs(number) * 0.3 * ids))
                        : number + (i == 0 ? c.shift : 0));
    }
  }
  if (c.kept) {
    std::vector<ConstTensorRef> in;
    std::vector<TensorRef> out;
    for (std::size_t i = 0; i < c.kept->inputs; ++i) in.push_back(inputs[i].ref());
    for (std::size_t i = 0; i < 2; ++i) out.push_back(inputs[c.kept->inputs + i].ref());
    CpuKernels(detect_instruction_set()).run(c.kept->op, in, out, {});
  }
  return inputs;
}

Op op_of(OpKind kind, std::vector<std::pair<std::string, Attribute>> attributes = {}) {
  return {kind, std::move(attributes)};
}

/// Returns true for ops of two parts, between which a GPU may round to bf16.
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

  /// Returns the CPU's results for the same numbers in f32.
  static std::vector<HostTensor> expected_outputs(const OpCase& c,
                                                  std::vector<HostTensor>& inputs) {
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

  void check(const OpCase& c, DType real, std::size_t offset, bool accumulate, bool in_place) {
    SCOPED_TRACE(to_string(c) + ", " + std::string(to_string(real)) +
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
      if (accumulate && type.dtype != DType::kF32) return;  // only f32 accumulates
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
      const std::size_t shared = definition(c.op.kind).in_place_input;
      first_output = &inputs[shared];
      out_refs[0].data = inputs[shared].data();
    }
    runner->run(c.op, in_refs, out_refs, modes);
    // A GPU's libraries round probabilities to bf16, and also a sum before its bias is added.
    const bool gpu = GetParam().name == "cuda" || GetParam().name == "cuda_recorded";
    const bool rounds_between = (gpu && fused(c.op.kind)) || of_two_parts(c.op.kind);
    const double library = real == DType::kBF16 && rounds_between ? 0.01 * c.size : 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      HostTensor& output = i == 0 ? *first_output : outputs[i];
      // cuDNN computes gradients of bf16 weights in bf16; they are converted to f32.
      const bool rounded = output.type.dtype == DType::kBF16 ||
                           (real == DType::kBF16 && c.op.kind == OpKind::kConvolutionWeightGrad);
      int wrong = 0;
      for (std::int64_t e = 0; e < output.type.elements() && wrong < 3; ++e) {
        const double is = output.get(e), old = before[i][e], should = expected[i].get(e) + old;
        // bf16 has 8 bits of mantissa.
        const double allowed = library + 3e-5 * c.size + 1e-4 * std::abs(should) +
                               (rounded ? std::abs(should) / 256 : 0);
        if (is == should || std::abs(is - should) <= allowed)
          continue;  // equal also for minus
                     // infinity
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
  for (const OpCase& c : op_cases().cases) {
    for (const DType real : {DType::kF32, DType::kBF16}) {
      for (const bool accumulate : {false, true}) check(c, real, 0, accumulate, false);
    }
    if (HasFatalFailure()) return;
  }
}

TEST_P(KernelContract, AddressesNeedNotBeAligned) {
  for (const OpCase& c : op_cases().cases) {
    for (const DType real : {DType::kF32, DType::kBF16}) check(c, real, 1, false, false);
  }
}

TEST_P(KernelContract, InPlaceWhereTheOpAllowsIt) {
  for (const OpCase& c : op_cases().cases) {
    const int shared = definition(c.op.kind).in_place_input;
    if (shared < 0) continue;
    for (const DType real : {DType::kF32, DType::kBF16}) check(c, real, 0, false, true);
  }
}

/// Compares the two orders of threads bit for bit. A missing barrier shows in one of them.
TEST(CudaOnHost, TheOrderOfThreadsDoesNotMatter) {
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  const auto forward = cuda_on_host(HostOrder::kForward),
             backward = cuda_on_host(HostOrder::kBackward);
  for (const OpCase& c : op_cases().cases) {
    SCOPED_TRACE(to_string(c));
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
                                0x7f800000u};  // two ties, just above a tie, overflow, infinity
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
  const Op target_rows = op_of(OpKind::kTargetRows, {{"slice_width", std::int64_t{4}},
                                                     {"transposed", std::int64_t{1}},
                                                     {"first", std::int64_t{0}},
                                                     {"count", std::int64_t{4}},
                                                     {"columns", std::int64_t{4}}});
  HostTensor rows({DType::kF32, {3, 1, 8}}, 0);
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
    EXPECT_NE(message([&] {
                run(target_rows, table, ids, rows);
              }).find("target " + std::to_string(wrong)),
              std::string::npos);
  }
  ids.set(1, 3);  // valid again
  run(op_of(OpKind::kEmbedding), table, ids, y);
  run(cross_entropy, logits, ids, loss);
  run(target_rows, table, ids, rows);
}

TEST_P(KernelContract, TheOptimizerAsTheCpuDoesIt) {
  // Odd sizes, more tensors than one launch takes, some of them unaligned, some without a working
  // copy or decay.
  const AdamW step{.learning_rate = 0.01, .weight_decay = 0.1, .step = 3, .gradient_scale = 0.5};
  CpuKernels cpu(detect_instruction_set());
  std::vector<std::vector<HostTensor>> is, should;
  std::vector<AdamWParameter> parameters;
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
      return AdamWParameter{floats(t[0]), floats(t[1]), floats(t[2]),
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
    to.set(e, e);
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

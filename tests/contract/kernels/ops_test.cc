// Compares every op on every runner with the CPU's f32 kernels: odd and even sizes, f32 and bf16,
// written and accumulated, in place, at aligned and unaligned addresses. Results of bf16 inputs are
// compared with the CPU's results for the same numbers in f32.
//
// Each op on each runner is a test, so that an error that a GPU does not survive costs one op. The
// names are RUNNER__OP: `--gtest_filter='OpContract*/cuda__*'` selects all ops on runner "cuda",
// and none on "cuda_recorded".
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "core/cpu/cpu_kernels.h"
#include "core/ops/op_definition.h"
#include "tests/contract/kernels/contract_runners.h"
#include "tests/contract/kernels/host_tensor.h"
#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

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

/// Returns the CPU's results for the same numbers in f32.
std::vector<HostTensor> expected_outputs(const OpCase& c, std::vector<HostTensor>& inputs) {
  std::vector<HostTensor> in;
  std::vector<ConstTensorRef> in_refs;
  std::vector<TensorType> types;
  for (HostTensor& input : inputs) {
    in.emplace_back(
        TensorType{input.type.dtype == DType::kI32 ? DType::kI32 : DType::kF32, input.type.shape},
        0);
    const std::int64_t elements = input.type.elements();
    for (std::int64_t e = 0; e < elements; ++e) in.back().set(e, input.get(e));
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

/// Op on a runner: the unit that one test checks.
struct OpOnRunner {
  KindOfRunner kind;
  OpKind op;

  std::string name() const { return kind.name + "__" + std::string(to_string(op)); }
  friend void PrintTo(const OpOnRunner& param, std::ostream* out) { *out << param.name(); }
};

/// Cases of every op.
const std::map<OpKind, std::vector<OpCase>>& cases_by_op() {
  static const auto cases = [] {
    std::map<OpKind, std::vector<OpCase>> by_op;
    for (OpCase& c : op_cases().cases) by_op[c.op.kind].push_back(std::move(c));
    return by_op;
  }();
  return cases;
}

std::vector<OpOnRunner> ops_on_runners(bool in_place) {
  std::vector<OpOnRunner> all;
  for (const KindOfRunner& kind : kernel_runners()) {
    for (const auto& [op, cases] : cases_by_op()) {
      if (!in_place || definition(op).in_place_input >= 0) all.push_back({kind, op});
    }
  }
  return all;
}

std::string test_name(const testing::TestParamInfo<OpOnRunner>& test) { return test.param.name(); }

class OpContract : public testing::TestWithParam<OpOnRunner> {
 protected:
  void SetUp() override {
    const auto found = contract_runners.find(kind());
    if (found.runner == nullptr) GTEST_SKIP() << found.skip_reason;
    runner = found.runner;
  }
  const KindOfRunner& kind() const { return GetParam().kind; }
  const std::vector<OpCase>& cases() const { return cases_by_op().at(GetParam().op); }

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
      const std::int64_t elements = type.elements();
      before.back().resize(elements);
      for (std::int64_t e = 0; e < elements; ++e) {
        outputs.back().set(e, accumulate ? normal(random) : std::nan(""));
        if (accumulate) before.back()[e] = outputs.back().get(e);
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
    contract_runners.watch(kind(), [&] { runner->run(c.op, in_refs, out_refs, modes); });
    // A GPU's libraries round probabilities to bf16, and also a sum before its bias is added.
    const bool rounds_between = (kind().on_gpu && fused(c.op.kind)) || of_two_parts(c.op.kind);
    const double library = real == DType::kBF16 && rounds_between ? 0.01 * c.size : 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      HostTensor& output = i == 0 ? *first_output : outputs[i];
      // cuDNN computes gradients of bf16 weights in bf16; they are converted to f32.
      const bool rounded = output.type.dtype == DType::kBF16 ||
                           (real == DType::kBF16 && c.op.kind == OpKind::kConvolutionWeightGrad);
      int wrong = 0;
      const std::int64_t elements = output.type.elements();
      for (std::int64_t e = 0; e < elements && wrong < 3; ++e) {
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

  KernelRunner* runner = nullptr;
  std::mt19937 random{1};
  std::normal_distribution<double> normal;
};

TEST_P(OpContract, EveryTypeAndMode) {
  for (const OpCase& c : cases()) {
    for (const DType real : {DType::kF32, DType::kBF16}) {
      for (const bool accumulate : {false, true}) check(c, real, 0, accumulate, false);
    }
    if (HasFatalFailure()) return;
  }
}

TEST_P(OpContract, AddressesNeedNotBeAligned) {
  for (const OpCase& c : cases()) {
    for (const DType real : {DType::kF32, DType::kBF16}) check(c, real, 1, false, false);
  }
}

/// Ops whose first output may replace an input.
class OpContractInPlace : public OpContract {};

TEST_P(OpContractInPlace, TheOutputReplacesAnInput) {
  for (const OpCase& c : cases()) {
    for (const DType real : {DType::kF32, DType::kBF16}) check(c, real, 0, false, true);
  }
}

INSTANTIATE_TEST_SUITE_P(, OpContract, testing::ValuesIn(ops_on_runners(false)), test_name);
INSTANTIATE_TEST_SUITE_P(, OpContractInPlace, testing::ValuesIn(ops_on_runners(true)), test_name);

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

}  // namespace
}  // namespace weft::test

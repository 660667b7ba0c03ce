// Checks what ops_test.cc does not, on every runner: conversions, numbers outside their table, the
// optimizer and sums. `--gtest_filter='KernelContract.*/cuda'` selects runner "cuda".
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "core/base/error.h"
#include "core/cpu/cpu_kernels.h"
#include "tests/contract/kernels/contract_runners.h"
#include "tests/contract/kernels/host_tensor.h"
#include "tests/support/thrown_error.h"

namespace weft::test {
namespace {

Op op_of(OpKind kind, std::vector<std::pair<std::string, Attribute>> attributes = {}) {
  return {kind, std::move(attributes)};
}

class KernelContract : public testing::TestWithParam<KindOfRunner> {
 protected:
  void SetUp() override {
    const auto found = contract_runners.find(GetParam());
    if (found.runner == nullptr) GTEST_SKIP() << found.skip_reason;
    runner = found.runner;
  }
  /// Calls work(), which uses the runner.
  static void watch(const std::function<void()>& work) { contract_runners.watch(GetParam(), work); }
  void run(const Op& op, const std::vector<ConstTensorRef>& inputs, const TensorRef& output) {
    watch([&] { runner->run(op, inputs, std::vector{output}, {}); });
  }

  KernelRunner* runner = nullptr;
  std::mt19937 random{1};
  std::normal_distribution<double> normal;
};

TEST_P(KernelContract, ConversionsRoundToNearestEven) {
  const Shape shape{3, 27};
  HostTensor f32({DType::kF32, shape}, 0), bf16({DType::kBF16, shape}, 0),
      back({DType::kF32, shape}, 0);
  for (std::int64_t i = 0; i < f32.type.elements(); ++i)
    f32.set(i, normal(random) * std::pow(10.0, i % 20 - 10));
  const std::uint32_t ties[] = {0x3f808000u, 0x3f818000u, 0xbf808001u, 0x7f7fffffu,
                                0x7f800000u};  // two ties, just above a tie, overflow, infinity
  for (std::int64_t i = 0; i < 5; ++i) f32.set(i, std::bit_cast<float>(ties[i]));
  run(op_of(OpKind::kToBF16), {f32.ref()}, bf16.ref());
  run(op_of(OpKind::kToF32), {bf16.ref()}, back.ref());
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
  const auto run_pair = [&](const Op& op, HostTensor& a, HostTensor& b, HostTensor& to) {
    run(op, {a.ref(), b.ref()}, to.ref());
  };
  const auto message = [](const auto& call) -> std::string {
    return error_message(ErrorCode::kInvalidArgument, [&] { call(); });
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
                run_pair(op_of(OpKind::kEmbedding), table, ids, y);
              }).find("id " + std::to_string(wrong)),
              std::string::npos);
    EXPECT_NE(message([&] {
                run_pair(cross_entropy, logits, ids, loss);
              }).find("target " + std::to_string(wrong)),
              std::string::npos);
    EXPECT_NE(message([&] {
                run_pair(target_rows, table, ids, rows);
              }).find("target " + std::to_string(wrong)),
              std::string::npos);
  }
  ids.set(1, 3);  // valid again
  run_pair(op_of(OpKind::kEmbedding), table, ids, y);
  run_pair(cross_entropy, logits, ids, loss);
  run_pair(target_rows, table, ids, rows);
}

TEST_P(KernelContract, TheOptimizerEqualsTheCpus) {
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
  watch([&] { runner->adamw(step, parameters); });
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
  watch([&] { runner->sums_of_squares(spans, results); });
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_NEAR(results[i], should[i], 1e-12 * should[i]) << i;

  HostTensor from({DType::kF32, {1003}}, 0), to({DType::kF32, {1003}}, 1);
  for (std::int64_t e = 0; e < 1003; ++e) {
    from.set(e, normal(random));
    to.set(e, e);
  }
  watch([&] { runner->add(from.ref().as<float>(), to.ref().as<float>()); });
  for (std::int64_t e = 0; e < 1003; ++e)
    EXPECT_EQ(to.get(e),
              static_cast<double>(static_cast<float>(e) + static_cast<float>(from.get(e))));
}

INSTANTIATE_TEST_SUITE_P(, KernelContract, testing::ValuesIn(kernel_runners()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace weft::test

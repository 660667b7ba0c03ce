// Compares fused ops with the ops that they replace, bit for bit: a schedule that separates the ops
// gives the same losses as one that does not. On the CPU, and with CUDA kernels in host_grid.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "core/cpu/cpu_kernels.h"
#include "core/ops/op_definition.h"
#include "core/tensor/bfloat16.h"
#include "tests/contract/kernels/kernel_runners.h"

namespace weft::test {
namespace {

struct Tensor {
  TensorType type;
  std::vector<std::uint64_t> words;

  explicit Tensor(TensorType t) : type(std::move(t)), words(type.bytes() / 8 + 1) {}
  TensorRef ref() { return {type, reinterpret_cast<std::byte*>(words.data())}; }
};

using Tensors = std::vector<Tensor>;
using RunOp = std::function<void(const Op&, std::span<const ConstTensorRef>,
                                 std::span<const TensorRef>, std::span<const OutputMode>)>;

/// Runner of each kind of kernel. CUDA kernels run with both orders of threads.
std::vector<std::pair<std::string, RunOp>> runners() {
  std::vector<std::pair<std::string, RunOp>> result;
  result.emplace_back("cpu", [cpu = std::make_shared<CpuKernels>(detect_instruction_set())](
                                 const auto&... arguments) { cpu->run(arguments...); });
  for (const HostOrder order : {HostOrder::kForward, HostOrder::kBackward}) {
    const std::shared_ptr<KernelRunner> cuda = cuda_on_host(order);
    result.emplace_back("cuda_on_host",
                        [cuda](const auto&... arguments) { cuda->run(arguments...); });
  }
  return result;
}

class FusedKernels : public testing::TestWithParam<DType> {
 protected:
  Tensor random_tensor(const Shape& shape, DType type) {
    Tensor tensor({type, shape});
    for (std::int64_t i = 0; i < tensor.type.elements(); ++i) {
      const auto value = static_cast<float>(normal(random));
      if (type == DType::kBF16) tensor.ref().as<BFloat16>()[i] = BFloat16(value);
      if (type == DType::kF32) tensor.ref().as<float>()[i] = value;
      if (type == DType::kI32)
        tensor.ref().as<std::int32_t>()[i] = static_cast<std::int32_t>(std::abs(value));
    }
    return tensor;
  }

  /// Runs the op. Adds to the outputs in `added`, which are 0.5 before, and writes the others.
  static Tensors run(const RunOp& runner, const Op& op, std::vector<Tensor*> inputs,
                     const std::vector<std::size_t>& added) {
    std::vector<TensorType> types;
    std::vector<ConstTensorRef> in;
    for (Tensor* input : inputs) {
      types.push_back(input->type);
      in.push_back(input->ref());
    }
    Tensors outputs;
    std::vector<TensorRef> out;
    std::vector<OutputMode> modes;
    for (const TensorType& type : infer_types(op, types)) {
      const bool adds = std::ranges::count(added, outputs.size()) > 0;
      modes.push_back(adds ? OutputMode::kAccumulate : OutputMode::kWrite);
      Tensor& output = outputs.emplace_back(type);
      if (adds) std::ranges::fill(output.ref().as<float>(), 0.5f);
    }
    for (Tensor& output : outputs) out.push_back(output.ref());
    runner(op, in, out, modes);
    return outputs;
  }

  static void expect_equal(Tensor& is, Tensor& should, const std::string& what) {
    ASSERT_EQ(is.type, should.type);
    EXPECT_EQ(std::memcmp(is.ref().data, should.ref().data, is.type.bytes()), 0)
        << what << " " << to_string(is.type);
  }

  std::mt19937 random{3};
  std::normal_distribution<double> normal;
};

TEST_P(FusedKernels, TheLossIsTheSameWithItsGradient) {
  for (const auto& [name, runner] : runners()) {
    // Odd and even rows; the last fit into a GPU's shared memory in bf16 only.
    for (const std::int64_t columns : {5, 264, 1001, 9000, 60001}) {
      Tensor logits = random_tensor({3, columns}, GetParam()),
             targets = random_tensor({3}, DType::kI32), weights = random_tensor({3}, DType::kF32);
      for (const bool weighted : {false, true}) {
        std::vector<Tensor*> inputs{&logits, &targets};
        if (weighted) inputs.push_back(&weights);
        const auto op = [](OpKind kind) { return Op{kind, {{"scale", 0.3}}}; };
        for (const bool adds : {false, true}) {
          const std::vector<std::size_t> to_loss(adds, 0), to_both(adds, 1);
          Tensors loss = run(runner, op(OpKind::kCrossEntropy), inputs, to_loss),
                  grad = run(runner, op(OpKind::kCrossEntropyGrad), inputs, {}),
                  both = run(runner, op(OpKind::kCrossEntropyWithGrad), inputs, to_both);
          expect_equal(both[0], grad[0], name + " dlogits");
          expect_equal(both[1], loss[0], name + " loss");
        }
      }
    }
  }
}

TEST_P(FusedKernels, GradientsOfALayerNormAreTheSameTogetherAndApart) {
  for (const auto& [name, runner] : runners()) {
    for (const Shape& shape : {Shape{9, 5}, Shape{67, 24}, Shape{19, 768}, Shape{11, 2104}}) {
      Tensor x = random_tensor(shape, GetParam()), dy = random_tensor(shape, GetParam()),
             a = random_tensor(shape, GetParam()),
             gamma = random_tensor({shape.back()}, GetParam());
      const auto op = [](OpKind kind) { return Op{kind, {{"epsilon", 1e-5}}}; };
      Tensors input = run(runner, op(OpKind::kLayerNormInputGrad), {&x, &gamma, &dy}, {}),
              sum = run(runner, op(OpKind::kLayerNormInputGradAdd), {&x, &gamma, &dy, &a}, {});
      if (GetParam() == DType::kF32) {  // bf16 sums are rounded once instead of twice
        Tensors added = run(runner, {OpKind::kAdd, {}}, {&a, &input[0]}, {});
        expect_equal(sum[0], added[0], name + " dx of the sum");
      }
      for (const bool adds : {false, true}) {
        const std::vector<std::size_t> separate = adds ? std::vector<std::size_t>{0, 1}
                                                       : std::vector<std::size_t>{},
                                       together = adds ? std::vector<std::size_t>{1, 2}
                                                       : std::vector<std::size_t>{};
        Tensors weights = run(runner, op(OpKind::kLayerNormWeightGrad), {&x, &dy}, separate),
                both = run(runner, op(OpKind::kLayerNormGrad), {&x, &gamma, &dy}, together),
                all = run(runner, op(OpKind::kLayerNormGradAdd), {&x, &gamma, &dy, &a}, together);
        expect_equal(both[0], input[0], name + " dx");
        expect_equal(all[0], sum[0], name + " dx with a sum");
        for (const std::size_t i : {0, 1}) {
          expect_equal(both[i + 1], weights[i], name + " weight gradient");
          expect_equal(all[i + 1], weights[i], name + " weight gradient with a sum");
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, FusedKernels, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return std::string(to_string(type.param)); });

}  // namespace
}  // namespace weft::test

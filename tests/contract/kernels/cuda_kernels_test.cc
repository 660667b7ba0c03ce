// Tests CudaKernels on doubles of the CUDA runtime and cuBLASLt: its work space, while work is
// recorded as a graph and afterwards.
#include "core/cuda/cuda_kernels.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/base/error.h"
#include "tests/contract/kernels/cublaslt_double.h"
#include "tests/contract/kernels/cuda_runtime_double.h"
#include "tests/support/thrown_error.h"

namespace weft::test {
namespace {

class CudaKernelsOnHost : public testing::Test {
 protected:
  /// Runs an op whose work space grows with `rows`.
  void run(std::int64_t rows, bool recorded = false) {
    const TensorType x{DType::kF32, {rows, 8}}, sum{DType::kF32, {8}};
    std::vector<float> in(static_cast<std::size_t>(rows) * 8, 1), dgamma(8), dbeta(8);
    const auto bytes = [](std::vector<float>& floats) {
      return reinterpret_cast<std::byte*>(floats.data());
    };
    const ConstTensorRef inputs[] = {{x, bytes(in)}, {x, bytes(in)}};
    const TensorRef outputs[] = {{sum, bytes(dgamma)}, {sum, bytes(dbeta)}};
    const auto queue = [&] {
      kernels_->run({OpKind::kLayerNormWeightGrad, {{"epsilon", 1e-5}}}, inputs, outputs, {},
                    nullptr);
    };
    if (recorded) {
      cuda_runtime_double.begin_capture();
      queue();
      const auto graph = cuda_runtime_double.end_capture();
      ASSERT_NE(graph, nullptr);
      EXPECT_FALSE(cuda_runtime_double.graph_keeps_memory());
      EXPECT_EQ(dbeta, std::vector<float>(8)) << "captured work ran";
      for (const auto& work : graph->work) work();
      graphs_.push_back(std::move(*graph));
    } else {
      queue();
    }
    EXPECT_EQ(dbeta, std::vector<float>(8, static_cast<float>(rows)));
  }
  void record(std::int64_t rows) { run(rows, true); }

  std::vector<CudaRuntimeDouble::Graph> graphs_;  // live until the end of the test
  std::unique_ptr<CudaKernels> kernels_ = std::make_unique<CudaKernels>(CudaKernelsOptions{});
};

TEST_F(CudaKernelsOnHost, WorkSpaceGrowsToTheLargestOp) {
  run(100);
  const auto blocks = cuda_runtime_double.blocks.size();
  run(1000);
  run(10);
  EXPECT_EQ(cuda_runtime_double.blocks.size(), blocks);
}

TEST_F(CudaKernelsOnHost, ARecordingMayBeginAfterAnOpThatNeededMore) {
  run(1000);
  record(1000);
  record(10);
}

TEST_F(CudaKernelsOnHost, ARecordedOpThatNeedsMoreFreesItInTheGraph) {
  run(10);
  record(1000);
  run(10);
}

TEST_F(CudaKernelsOnHost, TheWorkSpaceThatAGraphKnowsStays) {
  run(10);
  record(10);
  const auto known = cuda_runtime_double.blocks;
  run(1000);  // another program on the same stream
  record(1000);
  run(2000);
  for (const auto& [memory, block] : known)
    EXPECT_TRUE(cuda_runtime_double.blocks.contains(memory));
}

TEST_F(CudaKernelsOnHost, AnOpThatFailsWhileItIsRecordedLeavesNothing) {
  constexpr std::int64_t kTooWide = 100'000;
  std::vector<float> qkv(3 * kTooWide), y(kTooWide), statistics(1);
  const auto bytes = [](std::vector<float>& floats) {
    return reinterpret_cast<std::byte*>(floats.data());
  };
  const ConstTensorRef inputs[] = {{{DType::kF32, {1, 1, 3, kTooWide}}, bytes(qkv)}};
  const TensorRef outputs[] = {{{DType::kF32, {1, 1, kTooWide}}, bytes(y)},
                               {{DType::kF32, {1, 1, 1}}, bytes(statistics)}};
  // Accumulation: the op computes in work space first.
  const OutputMode modes[] = {OutputMode::kAccumulate, OutputMode::kWrite};
  run(10);
  cuda_runtime_double.begin_capture();
  EXPECT_THAT(
      [&] {
        kernels_->run({OpKind::kAttention, {{"head_dim", kTooWide}}}, inputs, outputs, modes,
                      nullptr);
      },
      throws_error(ErrorCode::kInvalidArgument, "do not fit this GPU's shared memory"));
  cuda_runtime_double.end_capture();
  EXPECT_FALSE(cuda_runtime_double.graph_keeps_memory());
  run(10);
}

TEST_F(CudaKernelsOnHost, CallsNoLibraryIfToldSo) {
  const TensorType matrix{DType::kF32, {2, 2}};
  std::vector<float> a{1, 2, 3, 4}, b{5, 6, 7, 8}, c(4);
  const auto multiply = [&] {
    const auto ref = [&](std::vector<float>& floats) {
      return TensorRef{matrix, reinterpret_cast<std::byte*>(floats.data())};
    };
    const ConstTensorRef inputs[] = {ref(a), ref(b)};
    const TensorRef outputs[] = {ref(c)};
    c.assign(4, 0);
    kernels_->run({OpKind::kLinear, {}}, inputs, outputs, {}, nullptr);
    EXPECT_EQ(c, (std::vector<float>{19, 22, 43, 50}));
  };
  const int before = cublaslt_double.products;
  multiply();
  EXPECT_EQ(cublaslt_double.products, before + 1);
  kernels_.reset();
  kernels_ = std::make_unique<CudaKernels>(CudaKernelsOptions{.vendor_libraries = false});
  EXPECT_EQ(cublaslt_double.objects, 0);
  multiply();
  EXPECT_EQ(cublaslt_double.products, before + 1);
}

TEST_F(CudaKernelsOnHost, LeavesNothingBehind) {
  run(10);
  record(10);
  run(100);
  kernels_.reset();
  EXPECT_TRUE(cuda_runtime_double.blocks.empty());
  EXPECT_EQ(cublaslt_double.objects, 0);
}

}  // namespace
}  // namespace weft::test

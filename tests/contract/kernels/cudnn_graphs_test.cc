// Tests CudnnGraphs on a double of cuDNN's backend API, with the real cudnn-frontend between them:
// which graphs it asks for, with which sizes and addresses, and in which order they run.
#include "core/cuda/internal/cudnn_graphs.h"

#include <cudnn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/contract/kernels/cuda_runtime_double.h"
#include "tests/contract/kernels/cudnn_double.h"
#include "tests/support/thrown_error.h"

namespace weft::test {
namespace {

using cuda::Attention;
using cuda::AttentionGradTensors;
using cuda::Convolution;
using cuda::ConvolutionPass;
using testing::ElementsAre;
using testing::HasSubstr;

/// Ids of tensors in the graphs of core/cuda/internal/cudnn_graphs.cc.
enum Id : std::int64_t { kQ = 1, kK, kV, kY, kStatistics, kDy, kDq, kDk, kDv, kX, kW, kDx, kDw };
constexpr std::int64_t kQueryLengths = 14, kKeyLengths = 15;

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

/// Backend that has a stream and memory only: cuDNN's double computes nothing.
class SomeBackend final : public cuda::Backend {
 public:
  cuda::StreamHandle stream() const override {
    return reinterpret_cast<cuda::StreamHandle>(const_cast<int*>(&stream_));
  }
  void* allocate(std::size_t bytes) override {
    allocated.push_back(static_cast<std::int64_t>(bytes));
    // Address space: nothing is stored in a work space of hundreds of mebibytes.
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes + 256));
    const auto address = reinterpret_cast<std::uintptr_t>(blocks_.back().get());
    return reinterpret_cast<void*>((address + 255) / 256 * 256);
  }
  cuda::FaultWord* fault() const override { return nullptr; }
  std::size_t shared_memory() const override { return 0; }
  void fill_zero(void*, std::size_t) override {}
  void multiply(const cuda::MatrixProduct&) override {}
  bool multiply_fused(const cuda::MatrixProduct&) override { return false; }
  bool convolve(const Convolution&) override { return false; }
  bool attend(DType, const Attention&, const void*, const void*, const void*, void*,
              float*) override {
    return false;
  }
  bool attend_grad(DType, const Attention&, const AttentionGradTensors&) override { return false; }

  std::vector<std::int64_t> allocated;  ///< Bytes of each allocation.

 private:
  int stream_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

/// Attention of packed q, k and v, as in a GPT.
Attention packed(std::int64_t batch, std::int64_t heads, std::int64_t sequence,
                 std::int64_t head_dim) {
  const std::int64_t width = heads * head_dim, row = 3 * width;
  return {.batch = batch,
          .heads = heads,
          .queries = sequence,
          .keys = sequence,
          .head_dim = head_dim,
          .causal = true,
          .q_batch = sequence * row,
          .q_row = row,
          .k_batch = sequence * row,
          .k_row = row,
          .y_batch = sequence * width,
          .y_row = width};
}

/// Addresses that nothing reads, far from each other.
void* address(int i) {
  return reinterpret_cast<void*>((std::uintptr_t{1} << 44) +
                                 (static_cast<std::uintptr_t>(i) << 36));
}
AttentionGradTensors gradient_tensors() {
  return {address(kQ),  address(kK),  address(kV),
          address(kY),  address(kDy), static_cast<const float*>(address(kStatistics)),
          address(kDq), address(kDk), address(kDv)};
}

/// Engine that stores a number of 2 bytes per head, query and key, as those of deterministic
/// gradients do.
CudnnEngine stores_scores() {
  return {.workspace = [](const CudnnGraph& graph) {
    const std::vector<std::int64_t>& q = graph.tensors.at(kQ).sizes;
    return q[0] * q[1] * q[2] * q[2] * 2;
  }};
}

class CudnnGraphsOnHost : public testing::Test {
 protected:
  void SetUp() override {
    cudnn_double.engines = {{.workspace = [](const CudnnGraph&) { return 0; }}};
    objects_ = cudnn_double.objects;
    make(true);
  }
  void TearDown() override {
    graphs_.reset();
    EXPECT_EQ(cudnn_double.objects, objects_);
    cudnn_double = {};
  }
  void make(bool deterministic) {
    graphs_ = std::make_unique<cuda::CudnnGraphs>(
        deterministic, [this](const std::string& note) { notes_.push_back(note); });
  }
  bool attend(const Attention& shape, DType type = DType::kBF16) {
    return graphs_->attend(backend_, type, shape, address(kQ), address(kK), address(kV),
                           address(kY), static_cast<float*>(address(kStatistics)));
  }
  bool attend_grad(const Attention& shape) {
    return graphs_->attend_grad(backend_, DType::kBF16, shape, gradient_tensors());
  }

  SomeBackend backend_;
  std::vector<std::string> notes_;
  std::unique_ptr<cuda::CudnnGraphs> graphs_;
  int objects_ = 0;
};

TEST_F(CudnnGraphsOnHost, AttentionHasTheSizesStridesAndAddressesOfItsTensors) {
  ASSERT_TRUE(attend(packed(32, 12, 1024, 64)));
  ASSERT_EQ(cudnn_double.executions.size(), 1u);
  const CudnnExecution& run = cudnn_double.executions[0];
  const std::vector<std::int64_t> sizes{32, 12, 1024, 64}, in{1024 * 2304, 64, 2304, 1},
      out{1024 * 768, 64, 768, 1};
  for (const Id id : {kQ, kV})
    EXPECT_EQ(run.graph.tensors.at(id), (CudnnTensor{sizes, in, CUDNN_DATA_BFLOAT16})) << id;
  EXPECT_EQ(run.graph.tensors.at(kK),
            (CudnnTensor{{32, 12, 64, 1024}, {1024 * 2304, 64, 1, 2304}, CUDNN_DATA_BFLOAT16}))
      << "transposed by cudnn-frontend";
  EXPECT_EQ(run.graph.tensors.at(kY), (CudnnTensor{sizes, out, CUDNN_DATA_BFLOAT16}));
  EXPECT_EQ(run.graph.tensors.at(kStatistics),
            (CudnnTensor{{32, 12, 1024, 1}, {12 * 1024, 1024, 1, 1}, CUDNN_DATA_FLOAT}));
  for (const Id id : {kQ, kK, kV, kY, kStatistics}) EXPECT_EQ(run.pointers.at(id), address(id));
  EXPECT_EQ(run.stream, backend_.stream());
  EXPECT_TRUE(notes_.empty());
}

TEST_F(CudnnGraphsOnHost, APlanIsBuiltOncePerShape) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(attend(packed(2, 4, 128, 64)));
    EXPECT_TRUE(attend(packed(4, 4, 128, 64)));
  }
  EXPECT_EQ(cudnn_double.plans, 2);
  EXPECT_EQ(cudnn_double.executions.size(), 6u);
}

/// GPT of 124M parameters at a batch of 32: a number of 2 bytes per score takes 768 MiB.
TEST_F(CudnnGraphsOnHost, DeterministicGradientsOfALargeBatchRunInEqualParts) {
  cudnn_double.engines = {stores_scores()};
  const Attention shape = packed(32, 12, 1024, 64);
  ASSERT_TRUE(attend_grad(shape));
  std::int64_t begin = 0;
  for (const CudnnExecution& run : cudnn_double.executions) {
    const std::int64_t batch = run.graph.tensors.at(kQ).sizes[0];
    EXPECT_EQ(batch, cudnn_double.executions[0].graph.tensors.at(kQ).sizes[0]);
    const auto at = [&](Id id, std::int64_t elements, std::int64_t size) {
      return static_cast<const void*>(static_cast<const char*>(address(id)) +
                                      begin * elements * size);
    };
    for (const Id id : {kQ, kK, kV, kDq, kDk, kDv})
      EXPECT_EQ(run.pointers.at(id), at(id, shape.q_batch, 2)) << id;
    for (const Id id : {kY, kDy}) EXPECT_EQ(run.pointers.at(id), at(id, shape.y_batch, 2)) << id;
    EXPECT_EQ(run.pointers.at(kStatistics), at(kStatistics, 12 * 1024, 4));
    EXPECT_NE(run.workspace, nullptr);
    begin += batch;
  }
  EXPECT_EQ(begin, shape.batch);
  EXPECT_EQ(cudnn_double.executions.size(), 4u);
  EXPECT_EQ(cudnn_double.plans, 2) << "one for the whole batch, one for the parts";
  for (const std::int64_t bytes : backend_.allocated) {
    EXPECT_LE(bytes, 256 * kMebibyte);
    EXPECT_GE(bytes, 8 * 12 * 1024 * 1024 * 2);
  }
}

TEST_F(CudnnGraphsOnHost, TheLastPartOfABatchMayBeSmaller) {
  cudnn_double.engines = {stores_scores()};
  ASSERT_TRUE(attend_grad(packed(13, 16, 1024, 64)));
  std::vector<std::int64_t> batches;
  for (const CudnnExecution& run : cudnn_double.executions)
    batches.push_back(run.graph.tensors.at(kQ).sizes[0]);
  EXPECT_THAT(batches, ElementsAre(7, 6));
}

TEST_F(CudnnGraphsOnHost, GradientsRunAtOnceIfTheirWorkSpaceIsSmall) {
  // The library may need none, whatever the sizes, also for deterministic gradients.
  ASSERT_TRUE(attend_grad(packed(32, 12, 1024, 64)));
  EXPECT_EQ(cudnn_double.plans, 1);
  cudnn_double.engines = {stores_scores()};
  ASSERT_TRUE(attend_grad(packed(8, 12, 1024, 64)));
  EXPECT_EQ(cudnn_double.plans, 2);
  EXPECT_EQ(cudnn_double.executions.size(), 2u);
}

TEST_F(CudnnGraphsOnHost, OnlyDeterministicEnginesServeDeterministicGradients) {
  const auto none = [](const CudnnGraph&) { return std::int64_t{0}; };
  cudnn_double.engines = {{false, none}, {true, none}};
  ASSERT_TRUE(attend_grad(packed(2, 4, 128, 64)));
  EXPECT_EQ(cudnn_double.executions.back().engine, 1);
  const CudnnGraph in_order = cudnn_double.executions.back().graph;
  make(false);
  ASSERT_TRUE(attend_grad(packed(2, 4, 128, 64)));
  EXPECT_EQ(cudnn_double.executions.back().engine, 0);
  EXPECT_NE(cudnn_double.executions.back().graph.operations, in_order.operations)
      << "the same algorithm in both modes";

  cudnn_double.engines = {{false, none}};
  cudnn_double.executions.clear();
  make(true);
  EXPECT_FALSE(attend_grad(packed(2, 4, 128, 64)));
  EXPECT_TRUE(cudnn_double.executions.empty());
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_THAT(notes_[0], HasSubstr("cuDNN does not support attention_grad of 2 x 4 heads of 64"));
}

TEST_F(CudnnGraphsOnHost, ARejectionIsNotedOnceAndQueuesNothing) {
  cudnn_double.engines.clear();
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(attend(packed(2, 4, 128, 64)));
    EXPECT_FALSE(attend_grad(packed(2, 4, 128, 64)));
  }
  EXPECT_TRUE(cudnn_double.executions.empty());
  EXPECT_EQ(notes_.size(), 2u);
}

TEST_F(CudnnGraphsOnHost, OtherTypesAndSizesNeverReachTheLibrary) {
  EXPECT_FALSE(attend(packed(2, 4, 128, 64), DType::kF32));
  EXPECT_FALSE(attend(packed(2, 4, 128, 20)));
  EXPECT_FALSE(graphs_->attend(backend_, DType::kBF16, packed(2, 4, 128, 64),
                               static_cast<char*>(address(kQ)) + 2, address(kK), address(kV),
                               address(kY), static_cast<float*>(address(kStatistics))));
  EXPECT_EQ(cudnn_double.plans, 0);
  EXPECT_TRUE(notes_.empty());
}

/// cudnn-frontend would copy lengths from host memory in each call, which cannot be captured.
TEST_F(CudnnGraphsOnHost, GradientsOfOlderVersionsGetTheLengthsOfOddNumbersOfKeys) {
  const auto has_lengths = [&](std::size_t version, std::int64_t sequence) {
    cudnn_double.version = version;
    make(true);
    EXPECT_TRUE(attend_grad(packed(3, 4, sequence, 64)));
    const CudnnExecution& run = cudnn_double.executions.back();
    if (!run.pointers.contains(kKeyLengths)) return false;
    for (const std::int64_t id : {kQueryLengths, kKeyLengths}) {
      const auto* const lengths = static_cast<const std::int32_t*>(run.pointers.at(id));
      for (int i = 0; i < 3; ++i) EXPECT_EQ(lengths[i], sequence);
    }
    return true;
  };
  EXPECT_TRUE(has_lengths(91500, 200));
  EXPECT_FALSE(has_lengths(91500, 256));
  EXPECT_FALSE(has_lengths(91900, 200));
}

TEST_F(CudnnGraphsOnHost, WorkThatHasRunOnceCanBeCaptured) {
  cudnn_double.version = 91500;
  make(true);
  const auto work = [&] {
    EXPECT_TRUE(attend(packed(3, 4, 200, 64)));
    EXPECT_TRUE(attend_grad(packed(3, 4, 200, 64)));
  };
  work();
  const int plans = cudnn_double.plans;
  cuda_runtime_double.begin_capture();
  work();
  EXPECT_NE(cuda_runtime_double.end_capture(), nullptr) << "a call that cannot be captured";
  EXPECT_EQ(cudnn_double.plans, plans);
}

TEST_F(CudnnGraphsOnHost, AFailedExecutionIsAnError) {
  cudnn_double.refuses_after = 0;
  const Error error = error_of([&] { attend(packed(2, 4, 128, 64)); });
  EXPECT_EQ(error.code(), ErrorCode::kInternal);
  EXPECT_THAT(error.message(), HasSubstr("cuDNN"));
}

/// Real memory: Weft's own kernels transpose the weights.
TEST_F(CudnnGraphsOnHost, AConvolutionHasChannelsInnermost) {
  std::vector<std::uint16_t> x(2 * 6 * 5 * 8), w(3 * 3 * 8 * 16), y(2 * 6 * 5 * 16), dx(x.size());
  std::vector<float> dw(w.size());
  Convolution c{.type = DType::kBF16,
                .window = {.x = {.batch = 2, .height = 6, .width = 5, .channels = 8},
                           .kernel_height = 3,
                           .kernel_width = 3,
                           .stride = 1,
                           .padding = 1,
                           .out_height = 6,
                           .out_width = 5},
                .out_channels = 16,
                .x = x.data(),
                .w = w.data()};
  const CudnnTensor x_tensor{{2, 8, 6, 5}, {240, 1, 40, 8}, CUDNN_DATA_BFLOAT16},
      w_tensor{{16, 8, 3, 3}, {72, 1, 24, 8}, CUDNN_DATA_BFLOAT16},
      y_tensor{{2, 16, 6, 5}, {480, 1, 80, 16}, CUDNN_DATA_BFLOAT16};
  c.result = y.data();
  ASSERT_TRUE(graphs_->convolve(backend_, c));
  const auto last = [] { return cudnn_double.executions.back().graph; };
  EXPECT_TRUE(last().has(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
  EXPECT_EQ(last().tensors.at(kX), x_tensor);
  EXPECT_EQ(last().tensors.at(kW), w_tensor);
  EXPECT_EQ(last().tensors.at(kY), y_tensor);

  c.pass = ConvolutionPass::kInputGrad;
  c.dy = y.data();
  c.x = nullptr;
  c.result = dx.data();
  ASSERT_TRUE(graphs_->convolve(backend_, c));
  EXPECT_TRUE(last().has(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR));
  EXPECT_EQ(last().tensors.at(kDx), x_tensor);

  c.pass = ConvolutionPass::kWeightGrad;
  c.x = x.data();
  c.w = nullptr;
  c.result = dw.data();
  ASSERT_TRUE(graphs_->convolve(backend_, c));
  EXPECT_TRUE(last().has(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR));
  EXPECT_EQ(last().tensors.at(kDw), w_tensor);
  EXPECT_EQ(cudnn_double.executions.size(), 3u);
}

}  // namespace
}  // namespace weft::test

// Tests CudaDevice on doubles of the CUDA runtime and cuBLASLt, by training a small GPT: with CUDA
// graphs, without them, and when their capture fails.
#include "core/cuda/cuda_device.h"

#include <driver_types.h>
#include <gtest/gtest.h>

#include <vector>

#include "apps/models/gpt_graph.h"
#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/evaluate/one_device_trainer.h"
#include "tests/contract/kernels/cublaslt_double.h"
#include "tests/contract/kernels/cuda_runtime_double.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::test {
namespace {

constexpr int kSteps = 3, kMicrobatches = 2;

/// Returns the notes on CUDA graphs.
std::vector<std::string> graph_notes(const Device& device) {
  std::vector<std::string> found;
  for (const std::string& note : device.notes()) {
    if (note.find("CUDA graph") != std::string::npos) found.push_back(note);
  }
  return found;
}

class CudaDeviceOnHost : public testing::Test {
 protected:
  void TearDown() override {
    cublaslt_double.refuses_capture = false;
    cublaslt_double.times = nullptr;
    cuda_runtime_double.no_memory_for_graphs = false;
    cuda_runtime_double.lost = false;
  }

  /// Result of a few steps of training.
  struct Run {
    std::vector<double> losses;
    std::vector<std::string> notes;
    int launches = 0;  ///< Graphs launched.
  };
  static Run train(const CudaDeviceOptions& options) {
    CudaDevice device(options);
    const apps::GptGraph gpt = apps::gpt_graph({.layers = 1,
                                                .width = 16,
                                                .heads = 2,
                                                .sequence = 8,
                                                .batch = 2,
                                                .vocabulary = 16,
                                                .precision = DType::kBF16},
                                               1.0 / (16 * kMicrobatches));
    OneDeviceTrainer trainer(device, differentiate(gpt.graph, gpt.loss), 1);
    const int launches_before = cuda_runtime_double.launches;
    Run run;
    for (int step = 0; step < kSteps; ++step) {
      const auto feed = [&](int microbatch, Evaluation& evaluation) {
        std::vector<std::int32_t> tokens, targets;
        for (int i = 0; i < 16; ++i) {
          tokens.push_back((3 * i + 5 * microbatch + step) % 16);
          targets.push_back((tokens.back() + 3) % 16);
        }
        evaluation.write(gpt.tokens, tokens);
        evaluation.write(gpt.targets, targets);
      };
      run.losses.push_back(
          trainer.step(kMicrobatches, feed, AdamW{.learning_rate = 1e-2}, 1.0).loss);
    }
    run.notes = graph_notes(device);
    run.launches = cuda_runtime_double.launches - launches_before;
    return run;
  }
  /// Returns an undisturbed run, which runs once for all tests.
  static const Run& undisturbed() {
    static const Run run = train({});
    return run;
  }
};

TEST_F(CudaDeviceOnHost, TrainsToEqualLossesWithAndWithoutGraphs) {
  const Run& with = undisturbed();
  const Run without = train({.graphs = false});
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_LT(with.losses.back(), with.losses.front());
  EXPECT_GT(with.launches, kSteps);
  EXPECT_EQ(without.launches, 0);
}

/// The first step measures; the recordings of later steps and later runs have its choices.
TEST_F(CudaDeviceOnHost, MeasuresProductsBeforeItRecordsThem) {
  const Run& expected = undisturbed();
  const ScratchFolder scratch;
  const CudaDeviceOptions measuring{.measure_products = true,
                                    .product_choices = scratch.path() / "choices.jsonl"};
  const auto products_of_run = [&] {
    const int before = cublaslt_double.products;
    const Run found = train(measuring);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(found.launches, expected.launches);
    EXPECT_EQ(cublaslt_double.algorithm, 1);
    return cublaslt_double.products - before;
  };
  cublaslt_double.times = [](std::uint32_t) { return std::vector<double>{30, 10}; };
  const int first = products_of_run();
  cublaslt_double.times = [](std::uint32_t) { return std::vector<double>{10, 30}; };
  EXPECT_LT(products_of_run(), first);
}

TEST_F(CudaDeviceOnHost, ContinuesWithoutAGraphIfACallCannotBeCaptured) {
  const Run& expected = undisturbed();
  cublaslt_double.refuses_capture = true;
  const Run found = train({});
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.launches, 0);
  EXPECT_TRUE(expected.notes.empty());
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_NE(found.notes.back().find("GPU 0 repeats some work without a CUDA graph"),
            std::string::npos)
      << found.notes.back();
  EXPECT_NE(found.notes.back().find("CUBLAS_STATUS_EXECUTION_FAILED"), std::string::npos)
      << found.notes.back();
}

TEST_F(CudaDeviceOnHost, ContinuesWithoutAGraphIfMemoryRunsOut) {
  const Run& expected = undisturbed();
  cuda_runtime_double.no_memory_for_graphs = true;
  const Run found = train({});
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.launches, 0);
  EXPECT_EQ(found.notes.size(), 1u);
}

TEST_F(CudaDeviceOnHost, AFaultyOpFailsWithItsOwnError) {
  CudaDevice device({});
  const auto stream = device.create_stream();
  const DeviceMemory memory = device.allocate(64);
  const TensorRef wrong{{DType::kF32, {4}}, memory.data()};
  const std::vector<ConstTensorRef> inputs{{{DType::kF32, {3}}, memory.data()}};
  const Error error = error_of([&] {
    static_cast<void>(stream->record_work([&] {
      stream->run({OpKind::kGelu, {}}, inputs, std::vector<TensorRef>{wrong});
    }));
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.message();
  EXPECT_TRUE(graph_notes(device).empty());
}

TEST_F(CudaDeviceOnHost, ALostGpuEndsTheCapture) {
  CudaDevice device({});
  const auto stream = device.create_stream();
  const DeviceMemory memory = device.allocate(64);
  const Error error = error_of([&] {
    static_cast<void>(stream->record_work([&] {
      cuda_runtime_double.lost = true;
      stream->fill_zero({memory.data(), memory.size()});
    }));
  });
  EXPECT_NE(error.message().find("restart it"), std::string::npos) << error.message();
  cuda_runtime_double.lost = false;  // frees the memory afterwards
  EXPECT_TRUE(graph_notes(device).empty());
}

TEST_F(CudaDeviceOnHost, ThreadsThatWaitBlock) {
  CudaDevice device({});
  const auto stream = device.create_stream();
  stream->record()->synchronize();
  EXPECT_NE(cuda_runtime_double.event_flags & cudaEventBlockingSync, 0u);
  EXPECT_NE(cuda_runtime_double.device_flags & cudaDeviceScheduleBlockingSync, 0u);
}

TEST_F(CudaDeviceOnHost, LeavesNothingBehind) {
  const int objects = cuda_runtime_double.objects, of_cublaslt = cublaslt_double.objects;
  const std::size_t blocks = cuda_runtime_double.blocks.size();
  train({});
  cublaslt_double.refuses_capture = true;
  train({});
  EXPECT_EQ(cuda_runtime_double.objects, objects);
  EXPECT_EQ(cublaslt_double.objects, of_cublaslt);
  EXPECT_EQ(cuda_runtime_double.blocks.size(), blocks);
}

}  // namespace
}  // namespace weft::test

#include <gtest/gtest.h>

#include "apps/data/text_dataset.h"
#include "apps/data/token_windows.h"
#include "apps/models/gpt_graph.h"
#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "tests/support/one_device_engine.h"
#include "tests/support/scratch_folder.h"

namespace weft::apps {
namespace {

/// Trains on the quickstart's text for a few seconds: data, model, backward and optimizer of one
/// device.
TEST(RealText, AGptLearnsMoreThanHowFrequentPiecesAre) {
  const test::ScratchFolder folder;
  std::unique_ptr<TextDataset> text;
  try {
    text = std::make_unique<TextDataset>(
        TextDataset::prepare({.vocabulary = 512, .cache = folder.path()}));
  } catch (const Error& error) {
    GTEST_SKIP() << error.message();
  }
  const GptShape shape{.layers = 1,
                       .width = 64,
                       .heads = 2,
                       .sequence = 32,
                       .batch = 8,
                       .vocabulary = text->train.vocabulary()};
  const GptGraph gpt = gpt_graph(shape, 1.0 / (32 * 16));
  const TokenWindows train(text->train, 32, 1);
  const TokenWindows held_out(text->validation, 32, 1);
  CpuDevice device;
  const SteadyClock clock;
  test::OneDeviceEngine engine(
      device, clock, differentiate(gpt.graph, gpt.loss), 2, 1,
      [&](bool validation, std::int64_t step, int microbatch, Evaluation& evaluation) {
        for (std::size_t row = 0; row < 8; ++row) {
          const std::int64_t index = microbatch * 8 + static_cast<std::int64_t>(row);
          const TokenWindows& windows = validation ? held_out : train;
          windows.read(validation ? windows.validation_offset(step * 16 + index)
                                  : windows.training_offset(step, index),
                       evaluation.data<std::int32_t>(gpt.tokens).subspan(row * 32, 32),
                       evaluation.data<std::int32_t>(gpt.targets).subspan(row * 32, 32));
        }
      });
  const auto validate = [&] {
    mesh::StepRequest request;
    request.split = mesh::Split::kValidation;
    double sum = 0;
    for (; request.step < 8; ++request.step) sum += engine.run(request).loss;
    return sum / 8;
  };
  const double before = validate();
  mesh::StepRequest request;
  request.optimizer.learning_rate = 5e-3;
  request.optimizer.clip_norm = 1;
  for (request.step = 1; request.step <= 150; ++request.step) engine.run(request);
  const double after = validate();
  RecordProperty("unigram", std::to_string(text->unigram_loss));
  RecordProperty("after", std::to_string(after));
  EXPECT_GT(before, text->unigram_loss);
  EXPECT_LT(after, text->unigram_loss - 0.5);
}

}  // namespace
}  // namespace weft::apps

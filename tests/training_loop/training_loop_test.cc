#include "apps/train/training_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/checkpoint/checkpoint.h"
#include "apps/data/token_windows.h"
#include "apps/gpt_model/gpt_graph.h"
#include "apps/train/one_device_engine.h"
#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/device_cpu/cpu_device.h"
#include "tests/support/scratch_folder.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kMicrobatches = 2;

/// A tiny GPT on random tokens with a pattern in them, trained in this process. Can be told to stop or to fail at a step.
class LoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    PhiloxStream random(3);
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 4000; ++i)
      ids.push_back(i % 3 == 0 ? static_cast<std::int32_t>(random.below(16)) : (ids.back() + 5) % 16);
    TokenFile::write(root_ / "tokens", ids, 16);
    tokens_ = std::make_unique<TokenFile>(root_ / "tokens");
    windows_ = std::make_unique<TokenWindows>(*tokens_, 8, 1);
    gpt_ = gpt_graph({.layers = 1, .width = 16, .heads = 2, .sequence = 8, .batch = 2, .vocabulary = 16},
                     1.0 / (8 * 2 * kMicrobatches));
    run_.name = "tiny";
    run_.app = "gpt";
    run_.training.steps = 12;
    run_.training.batch = 2 * kMicrobatches;
    run_.training.learning_rate = 1e-2;
    run_.training.min_learning_rate = 1e-3;
    run_.training.warmup_steps = 3;
    run_.training.validate_every = 5;
    run_.training.validation_batches = 2;
    run_.checkpoint.every = 4;
    run_.units_per_step = 8 * run_.training.batch;
    run_.model_digest = "digest";
    run_.baseline = {2.7, "a unigram model"};
    run_.show = [](const std::vector<ParameterState>& parameters, const std::filesystem::path&) {
      return Showing{.title = "the model has", .text = fmt::format("{} parameters", parameters.size())};
    };
  }

  RunSummary train_in(const fs::path& path) {
    CpuDevice device;
    const SteadyClock clock;
    std::stop_source stop;
    const auto feed = [&](bool validation, std::int64_t step, int microbatch, Evaluation& evaluation) {
      if (!validation && step == stop_in_step_) stop.request_stop();
      if (!validation && step == fail_in_step_) throw_error(ErrorCode::kPeerDied, "a device died");
      for (int row = 0; row < 2; ++row) {
        const std::int64_t index = microbatch * 2 + row;
        windows_->read(validation ? windows_->validation_offset(step * 4 + index) : windows_->training_offset(step, index),
                       evaluation.data<std::int32_t>(gpt_.tokens).subspan(static_cast<std::size_t>(row) * 8, 8),
                       evaluation.data<std::int32_t>(gpt_.targets).subspan(static_cast<std::size_t>(row) * 8, 8));
      }
    };
    OneDeviceEngine engine(device, clock, differentiate(gpt_.graph, gpt_.loss), kMicrobatches, 1, feed);
    const RunDirectory directory = RunDirectory::prepare(path, run_.checkpoint.resume);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> screen(std::tmpfile(), std::fclose);
    return train(run_, engine,
                 {.directory = directory, .screen = {.out = screen.get()}, .clock = clock, .stop = stop.get_token()});
  }
  static std::string read(const fs::path& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  static std::vector<double> losses(const fs::path& run) {
    std::vector<double> result;
    for (const StepMetrics& m : read_metrics(run / "metrics.jsonl")) {
      result.push_back(m.loss);
      if (m.validation_loss) result.push_back(*m.validation_loss);
    }
    return result;
  }

  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
  std::unique_ptr<TokenFile> tokens_;
  std::unique_ptr<TokenWindows> windows_;
  GptGraph gpt_;
  TrainingRun run_;
  std::int64_t stop_in_step_ = 0;
  std::int64_t fail_in_step_ = 0;
};

TEST_F(LoopTest, ARunLeavesEverythingItPromises) {
  const RunSummary summary = train_in(root_ / "run");
  EXPECT_EQ(summary.outcome, "done");
  EXPECT_EQ(summary.steps, 12);
  EXPECT_LT(summary.last_loss, summary.first_loss);
  EXPECT_EQ(read_metrics(root_ / "run" / "metrics.jsonl").size(), 12u);
  EXPECT_EQ(losses(root_ / "run").size(), 12u + 4u);  // validation after 1, 5, 10, 12
  EXPECT_EQ(nlohmann::json::parse(read(root_ / "run" / "summary.json"))["checkpoint_step"], 12);
  EXPECT_THAT(read(root_ / "run" / "loss.svg"), HasSubstr("validation"));
  EXPECT_THAT(read(root_ / "run" / "timeline.svg"), HasSubstr("tiny: step"));
  EXPECT_GT(nlohmann::json::parse(read(root_ / "run" / "trace.json"))["traceEvents"].size(), 5u);
  EXPECT_THAT(read(root_ / "run" / "sample.txt"), HasSubstr("parameters"));
  EXPECT_EQ(read_checkpoint(find_checkpoint(root_ / "run")).step, 12);
}

TEST_F(LoopTest, AModelThatCannotBeShownIsTrainedAllTheSame) {
  run_.show = [](const std::vector<ParameterState>&, const std::filesystem::path&) -> Showing {
    throw_error(ErrorCode::kResourceExhausted, "no memory for a sample");
  };
  const RunSummary summary = train_in(root_ / "run");
  EXPECT_EQ(summary.outcome, "done");
  EXPECT_EQ(summary.showing.text, "");
  EXPECT_EQ(summary.checkpoint_step, 12);
  EXPECT_GT(nlohmann::json::parse(read(root_ / "run" / "trace.json"))["traceEvents"].size(), 5u);
  EXPECT_FALSE(fs::exists(root_ / "run" / "sample.txt"));
}

TEST_F(LoopTest, AnInterruptedRunGoesOnBitForBitInPlaceAndElsewhere) {
  train_in(root_ / "whole");
  stop_in_step_ = 6;
  EXPECT_EQ(train_in(root_ / "part").outcome, "interrupted");
  EXPECT_EQ(read_checkpoint(find_checkpoint(root_ / "part")).step, 6);
  stop_in_step_ = 0;
  run_.checkpoint.resume = root_ / "part";
  EXPECT_EQ(train_in(root_ / "elsewhere").resumed_from, 6);
  EXPECT_EQ(losses(root_ / "elsewhere"), losses(root_ / "whole"));
  EXPECT_EQ(losses(root_ / "part").size(), 8u);
  EXPECT_EQ(train_in(root_ / "part").steps, 12);
  EXPECT_EQ(losses(root_ / "part"), losses(root_ / "whole"));
  EXPECT_EQ(read_checkpoint(find_checkpoint(root_ / "part")), read_checkpoint(find_checkpoint(root_ / "whole")));
}

TEST_F(LoopTest, ARunThatFailsLeavesWhatItKnowsAndCanBeResumed) {
  fail_in_step_ = 7;
  EXPECT_THROW(train_in(root_ / "run"), Error);
  EXPECT_EQ(read_metrics(root_ / "run" / "metrics.jsonl").size(), 6u);
  EXPECT_THAT(read(root_ / "run" / "summary.json"), HasSubstr("failed: a device died"));
  EXPECT_THAT(read(root_ / "run" / "loss.svg"), HasSubstr("</svg>"));
  fail_in_step_ = 0;
  run_.checkpoint.resume = root_ / "run" / "checkpoints";
  EXPECT_EQ(train_in(root_ / "run").resumed_from, 4);
  run_.checkpoint.resume.reset();
  train_in(root_ / "whole");
  EXPECT_EQ(losses(root_ / "run"), losses(root_ / "whole"));
}

TEST_F(LoopTest, ARunThatDivergesSaysSoInsteadOfGoingOn) {
  run_.training.learning_rate = 1e30;
  try {
    train_in(root_ / "run");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("training has diverged"));
  }
  EXPECT_LT(read_metrics(root_ / "run" / "metrics.jsonl").size(), 12u);
}

TEST_F(LoopTest, CheckpointsOfOtherModelsAndFinishedRunsAreRefused) {
  train_in(root_ / "run");
  run_.checkpoint.resume = root_ / "run";
  const auto refusal = [&]() -> std::string {
    try {
      train_in(root_ / "other");
    } catch (const Error& error) {
      return error.message();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(), HasSubstr("training.steps"));
  run_.model_digest = "another";
  EXPECT_THAT(refusal(), HasSubstr("another model"));
}

}  // namespace
}  // namespace weft::apps

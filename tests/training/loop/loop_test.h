#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/data/token_windows.h"
#include "apps/models/gpt_graph.h"
#include "apps/run_files/metrics.h"
#include "apps/train/training_loop.h"
#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/cpu/cpu_device.h"
#include "tests/support/one_device_engine.h"
#include "tests/support/scratch_folder.h"
#include "tests/training/loop/spoilt_engine.h"

namespace weft::apps {
namespace fs = std::filesystem;

/// Trains a tiny GPT on tokens with a pattern, in this process. Tests can stop or fail a step.
class LoopTest : public ::testing::Test {
 protected:
  static constexpr int kMicrobatches = 2;

  void SetUp() override {
    PhiloxStream random(3);
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 4000; ++i)
      ids.push_back(i % 3 == 0 ? static_cast<std::int32_t>(random.below(16))
                               : (ids.back() + 5) % 16);
    TokenFile::write(root_ / "tokens", ids, 16);
    tokens_ = std::make_unique<TokenFile>(root_ / "tokens");
    windows_ = std::make_unique<TokenWindows>(*tokens_, 8, 1);
    gpt_ = gpt_graph(
        {.layers = 1, .width = 16, .heads = 2, .sequence = 8, .batch = 2, .vocabulary = 16},
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
    run_.report_on_model = [](const TrainedValues& trained, const std::filesystem::path&) {
      return FinalReport{.title = "the model has",
                         .text = fmt::format("{} parameters", trained.parameters.size())};
    };
  }

  RunSummary train_in(const fs::path& path) {
    CpuDevice device;
    const Clock& clock = *clock_;
    std::stop_source stop;
    const auto feed = [&](bool validation, std::int64_t step, int microbatch,
                          Evaluation& evaluation) {
      if (!validation && step == stop_in_step_) stop.request_stop();
      if (!validation && step == fail_in_step_) throw_error(ErrorCode::kPeerDied, "a device died");
      for (int row = 0; row < 2; ++row) {
        const std::int64_t index = microbatch * 2 + row;
        windows_->read(validation ? windows_->validation_offset(step * 4 + index)
                                  : windows_->training_offset(step, index),
                       evaluation.data<std::int32_t>(gpt_.tokens)
                           .subspan(static_cast<std::size_t>(row) * 8, 8),
                       evaluation.data<std::int32_t>(gpt_.targets)
                           .subspan(static_cast<std::size_t>(row) * 8, 8));
      }
    };
    test::OneDeviceEngine trained(device, clock, differentiate(gpt_.graph, gpt_.loss),
                                  kMicrobatches, 1, feed);
    SpoiltEngine engine(trained, skipped_, overflow_at_, before_step_, during_gather_, copies_,
                        restarts_, before_restore_);
    const RunDirectory directory = RunDirectory::prepare(path, run_.checkpoint.resume);
    char* memory = nullptr;
    std::size_t size = 0;
    const std::shared_ptr<std::FILE> screen(::open_memstream(&memory, &size), [&](std::FILE* file) {
      std::fclose(file);
      shown_.assign(memory, size);
      std::free(memory);
    });
    return train(run_, engine,
                 {.directory = directory,
                  .screen = {.out = screen.get()},
                  .clock = clock,
                  .stop = stop.get_token(),
                  .on_progress = [this](const actors::RunProgress& progress) {
                    told_.push_back(progress.step);
                  }});
  }
  std::string failure(const fs::path& path) {
    try {
      train_in(path);
    } catch (const Error& error) {
      return error.message();
    }
    return "none";
  }
  std::set<std::string> checkpoints(const std::string& run) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_ / run / "checkpoints"))
      names.insert(entry.path().filename());
    return names;
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
  std::vector<std::int64_t> told_;  ///< Steps reported to the cluster.
  std::int64_t stop_in_step_ = 0;
  std::int64_t fail_in_step_ = 0;
  bool copies_ = true;              ///< True if training continues while a checkpoint is written.
  std::set<std::int64_t> skipped_;  ///< Steps with NaN gradients.
  std::int64_t overflow_at_ = 0;    ///< First step with an infinite second moment; 0: none.
  std::function<void(std::int64_t step)> before_step_;
  std::function<void()> during_gather_;  ///< Called for every piece of a checkpoint.
  std::function<void()> before_restore_;
  std::size_t restarts_ = 0;  ///< Number of restarts that the engine allows.
  std::unique_ptr<const Clock> clock_ = std::make_unique<SteadyClock>();
  std::string shown_;  ///< Screen output of the last run.
};

}  // namespace weft::apps

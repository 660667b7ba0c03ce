#include "apps/train/training_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "apps/run_files/checkpoint.h"
#include "apps/train/model_parameters.h"
#include "core/base/error.h"
#include "tests/support/thrown_error.h"
#include "tests/training/loop/loop_test.h"

namespace weft::apps {
namespace {
using ::testing::HasSubstr;

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

TEST_F(LoopTest, AfterADeathItGoesOnFromTheCheckpointWithTheSameLosses) {
  train_in(root_ / "undisturbed");
  restarts_ = 2;
  int died = 0;
  before_step_ = [&](std::int64_t step) {
    if (step == 7 && died++ == 0) throw_error(ErrorCode::kPeerDied, "worker1 died: SIGKILL");
  };
  before_restore_ = [&] {
    if (died++ == 1) throw_error(ErrorCode::kPeerDied, "worker1 died again");
  };
  EXPECT_EQ(train_in(root_ / "run").outcome, "done");
  EXPECT_EQ(losses(root_ / "run"), losses(root_ / "undisturbed"));
  EXPECT_THAT(shown_, HasSubstr("worker1 died again; back at step 4 after "));
  EXPECT_THAT(shown_, HasSubstr(" (2 steps repeated), restart 2 of 2"));
}

TEST_F(LoopTest, DeathsBeyondWhatTheEngineAllowsEndTheRun) {
  restarts_ = 1;
  before_step_ = [](std::int64_t step) {
    if (step == 7) throw_error(ErrorCode::kPeerDied, "worker1 died: SIGKILL");
  };
  EXPECT_EQ(failure(root_ / "run"), "worker1 died: SIGKILL, too often");
}

TEST_F(LoopTest, ADeathWhileItResumesIsRecoveredFrom) {
  train_in(root_ / "undisturbed");
  stop_in_step_ = 6;
  train_in(root_ / "run");
  stop_in_step_ = 0;
  run_.checkpoint.resume = root_ / "run";
  restarts_ = 1;
  bool died = false;
  before_restore_ = [&] {
    if (!std::exchange(died, true)) throw_error(ErrorCode::kPeerDied, "worker1 died: SIGKILL");
  };
  EXPECT_EQ(train_in(root_ / "run").outcome, "done");
  EXPECT_EQ(losses(root_ / "run"), losses(root_ / "undisturbed"));
}

TEST_F(LoopTest, AModelThatCannotBeShownIsTrainedAllTheSame) {
  run_.report_on_model = [](const TrainedValues&, const std::filesystem::path&) -> FinalReport {
    throw_error(ErrorCode::kResourceExhausted, "no memory for a sample");
  };
  const RunSummary summary = train_in(root_ / "run");
  EXPECT_EQ(summary.outcome, "done");
  EXPECT_EQ(summary.report.text, "");
  EXPECT_EQ(summary.checkpoint_step, 12);
  EXPECT_GT(nlohmann::json::parse(read(root_ / "run" / "trace.json"))["traceEvents"].size(), 5u);
  EXPECT_FALSE(fs::exists(root_ / "run" / "sample.txt"));
}

TEST_F(LoopTest, AModelThatExceedsTheMemoryIsTrainedAndNotShown) {
  run_.parameters = std::int64_t{1} << 50;
  bool shown = false;
  run_.report_on_model = [&](const TrainedValues&, const std::filesystem::path&) {
    shown = true;
    return FinalReport{};
  };
  const RunSummary summary = train_in(root_ / "run");
  EXPECT_EQ(summary.outcome, "done");
  EXPECT_FALSE(shown);
  EXPECT_THAT(shown_, HasSubstr("the run is done, but the final report failed: "
                                "its parameters take 4 PiB, and "
                                "this machine has "));
  EXPECT_THAT(shown_, HasSubstr(" of memory free"));
  EXPECT_FALSE(fs::exists(root_ / "run" / "sample.txt"));
}

/// Reads all files of all checkpoints, by relative path.
std::map<std::string, std::string> files_of(const fs::path& checkpoints) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(checkpoints)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path());
    files[fs::relative(entry.path(), checkpoints)] =
        std::string(std::istreambuf_iterator<char>(in), {});
  }
  return files;
}

TEST_F(LoopTest, CheckpointsWrittenWhileTrainingGoesOnAreThoseOfOneThatPauses) {
  run_.checkpoint = {.every = 2, .keep = 10};
  train_in(root_ / "beside");
  copies_ = false;
  train_in(root_ / "pausing");
  EXPECT_EQ(losses(root_ / "beside"), losses(root_ / "pausing"));
  const auto files = files_of(root_ / "beside/checkpoints");
  EXPECT_EQ(files.size(), 6u * 3);
  EXPECT_EQ(files, files_of(root_ / "pausing/checkpoints"));
}

TEST_F(LoopTest, StepsGoOnWhileACheckpointIsWrittenAndItCountsWhenItIsComplete) {
  std::promise<void> begun, go_on;
  std::set<std::string> meanwhile;
  bool first = true;
  during_gather_ = [&, wait = go_on.get_future().share()] {
    if (!std::exchange(first, false)) return;
    begun.set_value();
    wait.wait();
  };
  before_step_ = [&](std::int64_t step) {
    if (step != 7) return;
    begun.get_future().wait();
    meanwhile = checkpoints("run");
    go_on.set_value();
  };
  EXPECT_EQ(train_in(root_ / "run").outcome, "done");
  EXPECT_EQ(meanwhile, std::set<std::string>{".unfinished-step-00000004"})
      << "steps 5 and 6 are done";
  EXPECT_EQ(checkpoints("run"),
            (std::set<std::string>{"step-00000008", "step-00000012", "latest"}));
}

TEST_F(LoopTest, ATurnThatComesWhileTheOneBeforeItIsWrittenWaitsForIt) {
  run_.checkpoint = {.every = 2, .keep = 10};
  std::promise<void> reached;
  before_step_ = [&](std::int64_t step) {
    if (step == 4) reached.set_value();
  };
  bool first = true;
  during_gather_ = [&, wait = reached.get_future().share()] {
    if (!std::exchange(first, false)) return;
    wait.wait();
  };
  clock_ = std::make_unique<SteppingClock>();  // makes any wait long enough to report
  const RunSummary summary = train_in(root_ / "run");
  EXPECT_EQ(checkpoints("run").size(), 6u + 1) << "none is left out";
  EXPECT_THAT(shown_, HasSubstr("the checkpoint of step 2 was still being written; a larger "
                                "checkpoint.every avoids that"));
  EXPECT_EQ(shown_.find("still being written", shown_.find("still being written") + 1),
            std::string::npos)
      << shown_;
  EXPECT_GT(summary.checkpoint_seconds, 0);
  double told = 0;
  for (const StepMetrics& m : read_metrics(root_ / "run" / "metrics.jsonl"))
    told += m.checkpoint_seconds;
  EXPECT_GT(told, 0);
  EXPECT_LE(told, summary.checkpoint_seconds) << "the last one comes after the last step";
}

TEST_F(LoopTest, AFailureMeanwhileLeavesTheCheckpointThatIsHandedOverAndNoHalfOne) {
  fail_in_step_ = 7;
  EXPECT_EQ(failure(root_ / "run"), "a device died");
  EXPECT_EQ(checkpoints("run"), (std::set<std::string>{"step-00000004", "latest"}));
  during_gather_ = [] { throw_error(ErrorCode::kPeerDied, "the connection to a device is lost"); };
  EXPECT_THAT(failure(root_ / "lost"),
              ::testing::AnyOf("a device died", "the connection to a device is lost"));
  EXPECT_EQ(checkpoints("lost"), std::set<std::string>());
}

TEST_F(LoopTest, WhenACheckpointFailsOfACauseAndAStepOfItsSymptomTheCauseIsTold) {
  std::promise<void> failed;
  bool first = true;
  during_gather_ = [&] {
    if (std::exchange(first, false)) failed.set_value();
    throw_error(ErrorCode::kDataLoss, "bytes from a device were damaged");
  };
  // Step 5 fails before the loop has polled the result of step 4's checkpoint.
  before_step_ = [&](std::int64_t step) {
    if (step == 5) failed.get_future().wait();
  };
  fail_in_step_ = 5;
  EXPECT_EQ(failure(root_ / "run"), "bytes from a device were damaged");
  EXPECT_EQ(checkpoints("run"), std::set<std::string>());
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
  EXPECT_EQ(read_checkpoint(find_checkpoint(root_ / "part")),
            read_checkpoint(find_checkpoint(root_ / "whole")));
}

TEST_F(LoopTest, TheClusterIsToldTheLastStepHoweverARunEnds) {
  stop_in_step_ = 6;
  train_in(root_ / "interrupted");
  EXPECT_EQ(told_.back(), 6);
  stop_in_step_ = 0;
  fail_in_step_ = 8;
  failure(root_ / "failed");
  EXPECT_EQ(told_.back(), 7);
  fail_in_step_ = 0;
  train_in(root_ / "done");
  EXPECT_EQ(told_.back(), 12);
}

TEST_F(LoopTest, ARunThatFailsLeavesWhatItKnowsAndCanBeResumed) {
  fail_in_step_ = 7;
  EXPECT_THAT([&] { train_in(root_ / "run"); },
              test::throws_error(ErrorCode::kPeerDied, "a device died"));
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

TEST_F(LoopTest, ACheckpointThatTheDiskRefusesIsToldAndTriedAgainAtTheNextTurn) {
  copies_ = false;  // synchronous: only step 8 meets a full disk
  std::optional<FileSizeLimit> full;
  before_step_ = [&](std::int64_t step) {
    if (step == 6) full.emplace(10'000);  // metrics fit, checkpoints do not
    if (step == 10) full.reset();
  };
  EXPECT_EQ(train_in(root_ / "run").outcome, "done");
  EXPECT_THAT(shown_,
              HasSubstr("no checkpoint of step 8 (the newest is of step 4): cannot write "));
  EXPECT_THAT(
      shown_,
      HasSubstr("File too large; training goes on, and the next one is tried after step 12"));
  EXPECT_EQ(checkpoints("run"), (std::set<std::string>{"step-00000004", "step-00000012", "latest"}))
      << "and no leftovers";
  EXPECT_EQ(parent_of(root_ / "run/checkpoints/step-00000012"),
            checkpoint_identity(root_ / "run/checkpoints/step-00000004"));
}

TEST_F(LoopTest, OnlyTheLastCheckpointEndsTheRunAndTheFirstErrorIsTheOneThatIsTold) {
  copies_ = false;  // synchronous: step 4 is complete before the disk is full
  std::optional<FileSizeLimit> full;
  before_step_ = [&](std::int64_t step) {
    if (step == 6) full.emplace(100);  // reports cannot be written either
  };
  const std::string said = failure(root_ / "run");
  full.reset();
  EXPECT_THAT(said, HasSubstr("the last checkpoint, of step 12, could not be written (the newest "
                              "is of step 4): cannot write "));
  EXPECT_THAT(said, HasSubstr("File too large"));
  EXPECT_THAT(shown_, HasSubstr("summary.json: File too large"));
  EXPECT_EQ(checkpoints("run"), (std::set<std::string>{"step-00000004", "latest"}));
  EXPECT_EQ(read_checkpoint(find_checkpoint(root_ / "run")).step, 4);

  copies_ = true;
  stop_in_step_ = 7;
  EXPECT_THAT(failure(root_ / "interrupted"),
              HasSubstr("the last checkpoint, of step 7, could not be written"));
}

TEST_F(LoopTest, MetricsThatTheDiskRefusesAreToldOnceAndWrittenWhenThereIsRoomAgain) {
  run_.checkpoint.every = 0;
  std::optional<FileSizeLimit> full;
  before_step_ = [&](std::int64_t step) {
    if (step == 3) full.emplace(500);  // cuts a line
    if (step == 7) full.reset();
  };
  EXPECT_EQ(train_in(root_ / "run").outcome, "done");
  const auto told = shown_.find("metrics.jsonl: File too large; training continues");
  ASSERT_NE(told, std::string::npos) << shown_;
  EXPECT_EQ(shown_.find("metrics.jsonl: File", told + 1), std::string::npos) << shown_;
  before_step_ = {};
  train_in(root_ / "whole");
  EXPECT_EQ(losses(root_ / "run"), losses(root_ / "whole"));
}

/// Follows the advice of the program's own messages: resume from an older checkpoint with another
/// learning rate, then continue.
TEST_F(LoopTest, ARunResumedFromAnOlderCheckpointLeavesTheOldBranchForGood) {
  run_.checkpoint.keep = 2;
  run_.training.steps = 8;
  train_in(root_ / "run");
  const std::vector<double> old_losses = losses(root_ / "run");
  run_.checkpoint.resume = root_ / "run/checkpoints/step-00000004";
  run_.training.learning_rate = 3e-3;
  run_.training.steps = 12;
  stop_in_step_ = 6;
  EXPECT_EQ(train_in(root_ / "run").outcome, "interrupted");
  EXPECT_THAT(shown_, HasSubstr("later steps of this run, after step 4, were moved to " +
                                (root_ / "run/abandoned.1").string()));
  EXPECT_EQ(checkpoints("run"),
            (std::set<std::string>{"step-00000004", "step-00000006", "latest", "branch.json"}));
  EXPECT_EQ(read_checkpoint(find_checkpoint(root_ / "run/abandoned.1")).step, 8);
  EXPECT_EQ(losses(root_ / "run/abandoned.1"), old_losses);

  stop_in_step_ = 0;
  run_.checkpoint.resume = root_ / "run";
  EXPECT_EQ(train_in(root_ / "run").resumed_from, 6);
  const auto metrics = read_metrics(root_ / "run" / "metrics.jsonl");
  ASSERT_EQ(metrics.size(), 12u);
  for (std::size_t i = 0; i < metrics.size(); ++i)
    EXPECT_EQ(metrics[i].step, static_cast<std::int64_t>(i + 1));
  EXPECT_EQ(parent_of(root_ / "run/checkpoints/step-00000012"),
            checkpoint_identity(root_ / "run/checkpoints/step-00000008"));

  // Back on the old branch, losses continue as before.
  run_.checkpoint.resume = root_ / "run/abandoned.1";
  run_.training.learning_rate = 1e-2;
  EXPECT_EQ(train_in(root_ / "run").resumed_from, 8);
  const std::vector<double> back = losses(root_ / "run");
  EXPECT_TRUE(std::equal(old_losses.begin(), old_losses.end() - 1, back.begin()))
      << "but for the last validation";
  EXPECT_EQ(read_checkpoint(find_checkpoint(root_ / "run/abandoned.2")).step, 12);
}

TEST_F(LoopTest, ASkippedUpdateIsToldAndCountedAndTheRunGoesOn) {
  skipped_ = {4, 7};
  const RunSummary summary = train_in(root_ / "run");
  EXPECT_EQ(summary.outcome, "done");
  EXPECT_EQ(summary.skipped_updates, 2);
  EXPECT_TRUE(std::isfinite(summary.last_loss));
  EXPECT_EQ(nlohmann::json::parse(read(root_ / "run" / "summary.json"))["skipped_updates"], 2);
  const auto metrics = read_metrics(root_ / "run" / "metrics.jsonl");
  ASSERT_EQ(metrics.size(), 12u);
  for (const StepMetrics& m : metrics) {
    EXPECT_EQ(m.update_skipped, skipped_.contains(m.step)) << m.step;
    EXPECT_EQ(std::isnan(m.grad_norm), skipped_.contains(m.step)) << m.step;
  }
  EXPECT_THAT(
      shown_,
      HasSubstr(
          "step 4: its gradients are not finite (the first is that of 'h0.attention.qkv.weight')"));
  // The checkpoint of step 4 is written after the next step with finite gradients.
  EXPECT_THAT(shown_, HasSubstr("no checkpoint of step 4"));
  run_.checkpoint.keep = 10;
  train_in(root_ / "all");
  EXPECT_EQ(checkpoints("all"),
            (std::set<std::string>{"step-00000005", "step-00000008", "step-00000012", "latest"}));
}

TEST_F(LoopTest, TooManySkippedUpdatesInARowEndTheRunWithStepParameterAndRemedy) {
  skipped_ = {3, 6, 7, 8};
  run_.checkpoint = {.every = 1, .keep = 2};
  run_.training.max_skipped_updates = 3;
  const std::string said = failure(root_ / "run");
  EXPECT_THAT(said, HasSubstr("training has diverged: step 8 is the 3rd in a row"));
  EXPECT_THAT(said, HasSubstr("'h0.attention.qkv.weight'"));
  EXPECT_THAT(said, HasSubstr("Lower training.learning_rate or training.clip_norm"));
  // The state after step 5 led to the bad gradients, so the message advises the state before it.
  EXPECT_EQ(checkpoints("run"),
            (std::set<std::string>{"step-00000004", "step-00000005", "latest"}));
  EXPECT_THAT(said, HasSubstr("--set checkpoint.resume=" +
                              (root_ / "run/checkpoints/step-00000004").string()));
  EXPECT_EQ(read_metrics(root_ / "run" / "metrics.jsonl").size(), 8u);
}

TEST_F(LoopTest, ACheckpointThatIsNotFiniteReplacesNoneAndIsNotAdvised) {
  overflow_at_ = 8;
  run_.checkpoint.keep = 1;
  const std::string said = failure(root_ / "run");
  EXPECT_THAT(said, HasSubstr("training has diverged: the second moment of '"));
  EXPECT_THAT(said, HasSubstr("is not finite after step 8, so no checkpoint of it was written"));
  EXPECT_THAT(said, HasSubstr("step-00000004"));
  EXPECT_EQ(checkpoints("run"), (std::set<std::string>{"step-00000004", "latest"}));
  EXPECT_EQ(read_checkpoint(find_checkpoint(root_ / "run")).step, 4);
}

TEST_F(LoopTest, ARunThatDivergesSaysSoInsteadOfGoingOn) {
  run_.training.learning_rate = 1e37;
  run_.training.steps = 30;
  run_.checkpoint = {.every = 1, .keep = 1};
  EXPECT_THAT(failure(root_ / "run"), HasSubstr("training has diverged"));
  const auto metrics = read_metrics(root_ / "run" / "metrics.jsonl");
  EXPECT_LT(metrics.size(), 30u);
  for (const StepMetrics& m : metrics) EXPECT_NE(m.grad_norm, 0) << "masked in step " << m.step;
}

TEST_F(LoopTest, CheckpointsOfOtherModelsAndFinishedRunsAreRefused) {
  train_in(root_ / "run");
  run_.checkpoint.resume = root_ / "run";
  const auto refusal = [&](ErrorCode code) {
    return test::error_message(code, [&] { train_in(root_ / "other"); });
  };
  EXPECT_THAT(refusal(ErrorCode::kFailedPrecondition), HasSubstr("training.steps"));
  run_.model_digest = "another";
  EXPECT_THAT(refusal(ErrorCode::kIncompatible), HasSubstr("another model"));
}

}  // namespace
}  // namespace weft::apps

#include "apps/train/internal/run_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/train/model_parameters.h"
#include "core/base/units.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

/// Longest wait for a checkpoint, in seconds, that is not reported.
constexpr double kLongestSilentWait = 0.1;

}  // namespace

RunCheckpoints::RunCheckpoints(LoopState& loop, RunMetrics& metrics,
                               const DivergenceGuard& divergence, const ResumePoint& resumed)
    : loop_(loop),
      metrics_(metrics),
      divergence_(divergence),
      resumed_from_(resumed.from),
      store_(loop.environment.directory.checkpoints(), loop.run.checkpoint.keep),
      checkpointer_(store_, loop.engine, loop.environment.clock) {
  if (resumed.from) store_.set_parent(*resumed.from);
}

void RunCheckpoints::poll() { handle(checkpointer_.poll(), OnDiskError::kGoOn); }

void RunCheckpoints::wait() { handle(checkpointer_.wait(), OnDiskError::kGoOn); }

void RunCheckpoints::write_if_due(const StepMetrics& metrics) {
  const LoopEnvironment& environment = loop_.environment;
  const std::int64_t every = loop_.run.checkpoint.every;
  if (every > 0 && metrics.step % every == 0) due_ = true;
  if (environment.checkpoint_requested && environment.checkpoint_requested()) request(metrics.step);
  if (due_ && metrics.step < loop_.run.training.steps) write_if_finite(metrics);
}

void RunCheckpoints::request(std::int64_t step) {
  if (loop_.run.checkpoint.every == 0)
    return loop_.progress.note(
        "  no checkpoint was written on request, since checkpoint.every is 0");
  loop_.progress.note(fmt::format("  writing the requested checkpoint of step {}", step));
  due_ = true;
}

void RunCheckpoints::write_if_finite(const StepMetrics& metrics) {
  if (divergence_.is_finite(metrics.step) && std::isfinite(metrics.validation_loss.value_or(0))) {
    write(metrics.step, OldCheckpoints::kRemove);
    poll();
  } else if (metrics.step % loop_.run.checkpoint.every == 0) {
    loop_.progress.note(fmt::format(
        "  no checkpoint of step {}: its loss, gradients or validation loss are not finite",
        metrics.step));
  }
}

void RunCheckpoints::write_before_release() {
  const std::int64_t step = loop_.summary.steps;
  if (loop_.run.checkpoint.every <= 0 || !divergence_.is_finite(step)) return;
  if (!is_current_step_saved()) write(step, OldCheckpoints::kRemove);
  wait();
}

fs::path RunCheckpoints::write_last() {
  const std::int64_t step = loop_.summary.steps;
  loop_.report_activity(fmt::format("writing the checkpoint of step {}", step));
  handle(checkpointer_.wait(), OnDiskError::kTryAgainNow);  // may be of this step
  if (!is_current_step_saved())
    write(step, divergence_.is_finite(step) ? OldCheckpoints::kRemove : OldCheckpoints::kKeep);
  handle(checkpointer_.wait(), OnDiskError::kFail);
  return newest_;
}

void RunCheckpoints::write(std::int64_t step, OldCheckpoints old_ones) {
  loop_.report_activity(fmt::format(
      "{}writing the checkpoint of step {}",
      checkpointer_.in_progress() ? "waiting for the checkpoint before, then " : "", step));
  wait_for_previous(step);
  due_ = false;
  metrics_.flush();
  loop_.on_engine([&] {
    checkpointer_.begin(
        {step, loop_.run.seed, loop_.run.model_digest, parameter_list(loop_.engine.graph())},
        old_ones);
  });
}

void RunCheckpoints::wait_for_previous(std::int64_t step) {
  const Clock& clock = loop_.environment.clock;
  const TimePoint begun = clock.now();
  const auto before = checkpointer_.wait();
  if (!before) return;
  const double waited = in_seconds(clock.now() - begun);
  handle(before, OnDiskError::kTryAgainNow);
  if (waited > kLongestSilentWait && !std::exchange(wait_reported_, true))
    loop_.progress.note(
        fmt::format("  training waited for {} after step {}: the checkpoint of step {} was still "
                    "being written; a larger checkpoint.every avoids that",
                    format_seconds(waited), step, before->step));
}

void RunCheckpoints::handle(const std::optional<BackgroundCheckpointer::Outcome>& outcome,
                            OnDiskError on_refusal) {
  loop_.summary.checkpoint_seconds = in_seconds(checkpointer_.paused());
  if (!outcome) return;
  if (!outcome->error) {
    newest_ = outcome->path;
    loop_.summary.checkpoint_step = outcome->step;
    return;
  }
  if (!outcome->engine_intact) {
    loop_.engine_failed = true;
    throw Error(*outcome->error);
  }
  handle_refusal(outcome->step, *outcome->error, on_refusal);
}

void RunCheckpoints::handle_refusal(std::int64_t step, const Error& error, OnDiskError on_refusal) {
  if (error.code() == ErrorCode::kFailedPrecondition)
    throw_error(error.code(), "training has diverged: {}, so no checkpoint of it was written. {}",
                error.message(), divergence_advice());
  const RunSummary& summary = loop_.summary;
  const std::string newest = summary.checkpoint_step > 0
                                 ? fmt::format("the newest is of step {}", summary.checkpoint_step)
                                 : "there is none";
  if (on_refusal == OnDiskError::kFail)
    throw_error(error.code(), "the last checkpoint, of step {}, could not be written ({}): {}",
                step, newest, error.message());
  const std::int64_t now = std::max(step, summary.steps), every = loop_.run.checkpoint.every;
  const std::string next =
      on_refusal == OnDiskError::kTryAgainNow
          ? "the next one is tried now"
          : fmt::format("training goes on, and the next one is tried after step {}",
                        std::min((now / every + 1) * every, loop_.run.training.steps));
  loop_.progress.note(
      fmt::format("  no checkpoint of step {} ({}): {}; {}", step, newest, error.message(), next));
}

Error RunCheckpoints::cancel_write(Error error) {
  const auto outcome = checkpointer_.cancel_write();
  if (outcome && !outcome->error) {
    newest_ = outcome->path;
    loop_.summary.checkpoint_step = outcome->step;
  } else if (outcome && !outcome->engine_intact && is_secondary_failure(error) &&
             !is_secondary_failure(*outcome->error)) {
    return *outcome->error;
  }
  return error;
}

bool RunCheckpoints::is_current_step_saved() const {
  return !newest_.empty() && loop_.summary.checkpoint_step == loop_.summary.steps;
}

std::optional<fs::path> RunCheckpoints::newest_up_to(std::int64_t step) const {
  if (auto checkpoint = store_.newest_up_to(step)) return checkpoint;
  return resumed_from_;
}

double RunCheckpoints::take_paused_seconds() {
  const Nanoseconds paused = checkpointer_.paused();
  return in_seconds(paused - std::exchange(paused_before_, paused));
}

}  // namespace weft::apps

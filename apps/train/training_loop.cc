#include "apps/train/training_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run_files/checkpoint.h"
#include "apps/run_files/metrics.h"
#include "apps/train/best_parameters.h"
#include "apps/train/internal/divergence_guard.h"
#include "apps/train/internal/final_reporter.h"
#include "apps/train/internal/loop_state.h"
#include "apps/train/internal/run_checkpoints.h"
#include "apps/train/internal/run_metrics.h"
#include "apps/train/progress_reporter.h"
#include "apps/train/resume.h"
#include "apps/train/run_reports.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/units.h"
#include "mesh/program/compile.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

// Traced steps: early, so that the trace exists while the run continues, but after the warm-up.
constexpr std::int64_t kFirstTraced = 4;
constexpr std::int64_t kNumTraced = 5;

/// Order of a training run: steps, recoveries, the last checkpoint and the reports. Lives for one
/// call of train().
class Loop {
 public:
  Loop(const TrainingRun& run, mesh::TrainingEngine& engine, const LoopEnvironment& environment,
       const ResumePoint& resumed)
      : run_(run),
        engine_(engine),
        environment_(environment),
        first_(resumed.steps_done + 1),
        state_(run, engine, environment, resumed),
        metrics_(state_, resumed.steps_done),
        divergence_(state_, resumed.steps_done),
        checkpoints_(state_, metrics_, divergence_, resumed),
        final_reporter_(state_) {
    if (run.checkpoint.best) best_.emplace(environment.directory, resumed);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  RunSummary train_and_report() {
    try {
      const fs::path last = train_with_recovery();
      reporter_.flush_progress();
      progress_.finish();
      if (num_traced_ > 0 && num_traced_ < kNumTraced) write_traces();
      engine_.release();
      if (run_.report_on_model && summary_.outcome == "done" && !last.empty())
        final_reporter_.make_report(last, best_);
    } catch (...) {
      const Error error = checkpoints_.cancel_write(current_error());
      summary_.outcome = "failed: " + error.message();
      reporter_.flush_progress();
      progress_.finish();
      try_write_reports();
      throw error;
    }
    write_all_reports();
    return summary_;
  }

 private:
  /// Takes all steps and recovers from failures. Returns the result of last_values().
  fs::path train_with_recovery() {
    while (true) {
      std::optional<Error> error;
      try {
        take_steps();
        return last_values();
      } catch (...) {
        error = current_error();
      }
      if (is_saved_already(*error)) return model_file(checkpoints_.newest());
      try {
        rollback(*error);
      } catch (...) {
        if (is_saved_already(current_error())) return model_file(checkpoints_.newest());
        throw;
      }
    }
  }

  /// Returns true if the run was asked to stop, `error` only follows from the loss of devices, and
  /// the last step is in a checkpoint.
  bool is_saved_already(const Error& error) {
    if (!environment_.stop.stop_requested() || !is_secondary_failure(error)) return false;
    checkpoints_.cancel_write(error);
    if (!checkpoints_.is_current_step_saved()) return false;
    summary_.outcome = "interrupted";
    return true;
  }

  void take_steps() {
    summary_.outcome = "done";
    while (summary_.steps < run_.training.steps) {
      const std::int64_t step = summary_.steps + 1;
      state_.report_activity(
          fmt::format("finishing step {}{}", step,
                      run_.checkpoint.every > 0 ? ", then a last checkpoint" : ""));
      do_step(step);
      if (environment_.stop.stop_requested() && step < run_.training.steps) {
        summary_.outcome = "interrupted";
        progress_.finish();
        progress_.note(
            fmt::format("  interrupted: step {} is the last; writing a checkpoint", step));
        return;
      }
      if (const std::string what =
              environment_.take_leave_notice ? environment_.take_leave_notice() : "";
          !what.empty() && step < run_.training.steps)
        checkpoint_and_release(what);
    }
  }

  /// Writes a checkpoint, releases the leaving hosts and throws, so that recovery resumes here.
  [[noreturn]] void checkpoint_and_release(const std::string& what) {
    progress_.note(fmt::format("  {}", what));
    checkpoints_.write_before_release();
    environment_.release_leaving_hosts();
    state_.engine_failed = true;
    throw_error(ErrorCode::kUnavailable, "{}", what);
  }

  /// Recovers the engine and rolls training back to the newest complete state. Throws `error` if
  /// the engine cannot recover from it, and the errors of the recovery.
  void rollback(Error error) {
    const TimePoint begun = environment_.clock.now();
    const std::int64_t reached = summary_.steps;
    error = checkpoints_.cancel_write(error);
    while (true) {
      if (!std::exchange(state_.engine_failed, false) || !engine_.recovers_from(error))
        throw Error(error);
      try {
        const auto recovered = engine_.recover(error);  // an error of recover() ends the run
        const std::int64_t step = restore_state(recovered.kept_step);
        ++summary_.recoveries;
        tell_recovery(recovered, step, reached, environment_.clock.now() - begun);
        return;
      } catch (...) {
        error = current_error();
      }
    }
  }

  /// Restores the newest complete state: in memory, a checkpoint, or the initial one. Returns its
  /// step.
  std::int64_t restore_state(std::int64_t kept_step) {
    std::optional<StoredCheckpoint> stored;
    if (const auto checkpoint = checkpoints_.newest_up_to(summary_.steps))
      stored.emplace(*checkpoint);
    const std::int64_t step =
        restore_newest(stored ? &*stored : nullptr, kept_step, engine_, state_.engine_failed).step;
    state_.engine_failed = false;
    // Steps after `step` are repeated.
    reporter_.discard_pending();
    metrics_.rollback(step);
    summary_.steps = step;
    divergence_.rollback(step);
    checkpoints_.rollback();
    return step;
  }

  void tell_recovery(const mesh::TrainingEngine::Recovered& recovered, std::int64_t step,
                     std::int64_t reached, Nanoseconds took) {
    const std::string text = describe(recovered, step, reached, took);
    progress_.note("  " + text);
    if (environment_.on_recovery) environment_.on_recovery(text);
  }

  void do_step(std::int64_t step) {
    const mesh::StepRequest request = request_of(step);
    const TimePoint begun = environment_.clock.now();
    const mesh::StepResult result = state_.on_engine([&] { return engine_.run(request); });
    const TimePoint done = environment_.clock.now();
    if (step == first_) summary_.seconds_to_first_step = in_seconds(done - run_.started);
    if (request.trace && ++num_traced_ == kNumTraced) write_traces();

    const StepMetrics m = metrics_of(request, result, done - begun);
    metrics_.append(m);
    summary_.steps = step;
    checkpoints_.poll();
    progress_.step(m);
    reporter_.report({m.step, run_.training.steps, m.loss, progress_.units_per_second(), m.unit,
                      progress_.seconds_left()},
                     done);
    if (!result.note.empty()) progress_.note("  " + result.note);
    if (const auto diverged = divergence_.check(m, result.first_nonfinite_parameter)) {
      checkpoints_.wait();  // the advice may name this checkpoint
      throw_error(ErrorCode::kFailedPrecondition, "{}. {}", *diverged,
                  checkpoints_.divergence_advice());
    }
    checkpoints_.write_if_due(m);
    if (best_ && best_->is_improved_by(m.validation_loss)) keep_as_best(m);
    state_.on_engine([&] { engine_.snapshot_state(step); });
  }

  mesh::StepRequest request_of(std::int64_t step) const {
    mesh::StepRequest request;
    request.program = mesh::kTrainProgram;
    request.step = step;
    request.trace =
        step >= std::min(first_ + kFirstTraced, run_.training.steps) && num_traced_ < kNumTraced;
    request.optimizer = {.learning_rate = learning_rate(run_.training, step),
                         .beta1 = run_.training.beta1,
                         .beta2 = run_.training.beta2,
                         .epsilon = run_.training.epsilon,
                         .weight_decay = run_.training.weight_decay,
                         .clip_norm = run_.training.clip_norm,
                         .number = step};
    return request;
  }

  /// Returns the metrics of a step that took `took`. Validates if the step is due for it.
  StepMetrics metrics_of(const mesh::StepRequest& request, const mesh::StepResult& result,
                         Nanoseconds took) {
    StepMetrics m;
    m.step = request.step;
    m.loss = result.loss;
    m.grad_norm = result.grad_norm;
    m.update_skipped = !std::isfinite(result.grad_norm);
    m.learning_rate = request.optimizer.learning_rate;
    m.seconds = in_seconds(took);
    m.checkpoint_seconds = checkpoints_.take_paused_seconds();
    m.unit = run_.unit;
    m.units_per_second = m.seconds > 0 ? run_.units_per_step / m.seconds : 0;
    m.transfer_seconds = result.transfer_seconds / result.devices;
    m.exposed_transfer_seconds = result.exposed_transfer_seconds / result.devices;
    m.resharded_bytes = result.reshard_bytes;
    if (validates_after(run_.training, m.step)) m.validation_loss = validate();
    return m;
  }

  /// Returns the mean loss of fixed batches of the held-out part.
  double validate() {
    double sum = 0;
    for (std::int64_t batch = 0; batch < run_.training.validation_batches; ++batch) {
      mesh::StepRequest request;
      request.program = mesh::kValidateProgram;
      request.step = batch;
      request.split = mesh::Split::kValidation;
      sum += state_.on_engine([&] { return engine_.run(request).loss; });
    }
    return sum / run_.training.validation_batches;
  }

  /// Saves the parameters as the best so far. If the disk refuses them, the previous best stays.
  void keep_as_best(const StepMetrics& m) {
    checkpoints_.wait();  // the engine has one copy of its state
    const auto refused =
        state_.on_engine([&] { return best_->write(m.step, *m.validation_loss, engine_); });
    if (refused)
      progress_.note(fmt::format("  the parameters of step {}, the best so far, are not kept: {}",
                                 m.step, refused->message()));
  }

  /// Writes the last checkpoint. Without checkpoints, writes a file of parameters if the app has a
  /// final report. Returns the file for that report, which is made after the devices are released;
  /// empty if there is none.
  fs::path last_values() {
    if (run_.checkpoint.every > 0) return model_file(checkpoints_.write_last());
    if (!run_.report_on_model || summary_.outcome != "done") return {};
    return final_reporter_.write_parameters();
  }

  /// Writes the trace and timeline. Reports a disk error instead of ending the run.
  void write_traces() {
    const std::vector<DeviceTrace> traces = engine_.take_traces();
    try {
      write_step_pictures(traces, run_.name, run_.subtitle, environment_.directory);
    } catch (const Error& error) {
      progress_.note("  " + error.message());
    }
  }

  /// Writes the reports of a failed run. Only reports errors: the cause of the failure is thrown.
  void try_write_reports() {
    try {
      write_all_reports();
    } catch (const Error& error) {
      progress_.note("  " + error.message());
    }
  }

  void write_all_reports() {
    summarize(metrics_.steps(), summary_);
    write_reports(summary_, metrics_.steps(), environment_.directory);
  }

  const TrainingRun& run_;
  mesh::TrainingEngine& engine_;
  const LoopEnvironment& environment_;
  const std::int64_t first_;
  std::int64_t num_traced_ = 0;
  LoopState state_;
  ProgressDisplay& progress_ = state_.progress;
  RunSummary& summary_ = state_.summary;
  RunMetrics metrics_;
  DivergenceGuard divergence_;
  RunCheckpoints checkpoints_;
  std::optional<BestParameters> best_;  ///< Set if the run keeps the best parameters.
  FinalReporter final_reporter_;
  ProgressReporter reporter_{environment_.on_progress};
};

}  // namespace

RunSummary train(const TrainingRun& run, mesh::TrainingEngine& engine,
                 const LoopEnvironment& environment) {
  const ResumePoint resumed = resume(run, engine, environment);
  RunSummary summary = Loop(run, engine, environment, resumed).train_and_report();
  const Screen& screen = environment.screen;
  const auto columns = screen.terminal ? std::optional(screen.columns) : std::nullopt;
  std::fputs(summary_screen(summary, environment.directory, screen.colour, columns).c_str(),
             screen.out);
  std::fflush(environment.screen.out);
  return summary;
}

}  // namespace weft::apps

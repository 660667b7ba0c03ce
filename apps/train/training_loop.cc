#include "apps/train/training_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "apps/run_files/checkpoint.h"
#include "apps/run_files/metrics.h"
#include "apps/run_files/safetensors.h"
#include "apps/run_files/timeline_plot.h"
#include "apps/train/background_checkpointer.h"
#include "apps/train/best_parameters.h"
#include "apps/train/model_parameters.h"
#include "apps/train/progress_reporter.h"
#include "apps/train/resume.h"
#include "apps/train/run_reports.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/base/terminal.h"
#include "core/base/units.h"
#include "mesh/program/compile.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

// Traced steps: early, so that the trace exists while the run continues, but after the warm-up.
constexpr std::int64_t kFirstTraced = 4;
constexpr std::int64_t kNumTraced = 5;
/// Longest wait for a checkpoint, in seconds, that is not reported.
constexpr double kLongestSilentWait = 0.1;

/// Returns "1st", "2nd", "3rd", "11th".
std::string ordinal(std::int64_t number) {
  const std::int64_t last = number % 100 / 10 == 1 ? 0 : number % 10;
  return fmt::format("{}{}", number, last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

class Loop {
 public:
  Loop(const TrainingRun& run, mesh::TrainingEngine& engine, const LoopEnvironment& environment,
       const ResumePoint& resumed)
      : run_(run),
        engine_(engine),
        environment_(environment),
        first_(resumed.steps_done + 1),
        last_finite_step_(resumed.steps_done),
        resumed_from_(resumed.from),
        metrics_(environment.directory.metrics(), resumed.steps_done, environment.overflow_file),
        store_(environment.directory.checkpoints(), run.checkpoint.keep),
        checkpointer_(store_, engine, environment.clock),
        progress_(environment.screen, environment.clock, resumed.steps_done, run.training.steps) {
    summary_ = {.name = run.name,
                .app = run.app,
                .total_steps = run.training.steps,
                .resumed_from = resumed.steps_done,
                .parameters = run.parameters,
                .baseline = run.baseline,
                .unit = run.unit,
                .checkpoint_step = resumed.checkpoint_step};
    summary_.steps = resumed.steps_done;
    tell_metrics_problem();
    if (resumed.from) store_.set_parent(*resumed.from);
    if (run.checkpoint.best) best_.emplace(environment.directory, resumed);
  }

  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() {
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove(temporary_, ignored);
  }

  RunSummary train_and_report() {
    try {
      const fs::path last = train_with_recovery();
      reporter_.flush_progress();
      progress_.finish();
      if (num_traced_ > 0 && num_traced_ < kNumTraced) write_traces();
      engine_.release();
      if (run_.report_on_model && summary_.outcome == "done") make_final_report(last);
    } catch (...) {
      Error error = current_error();
      if (const auto outcome = checkpointer_.cancel_write(); outcome && !outcome->error) {
        summary_.checkpoint_step = outcome->step;
      } else if (outcome && !outcome->engine_intact && is_secondary_failure(error) &&
                 !is_secondary_failure(*outcome->error)) {
        error = *outcome->error;
      }
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
      if (is_saved_already(*error)) return model_file(newest_checkpoint_);
      try {
        rollback(*error);
      } catch (...) {
        if (is_saved_already(current_error())) return model_file(newest_checkpoint_);
        throw;
      }
    }
  }

  /// Returns true if the run was asked to stop, `error` only follows from the loss of devices, and
  /// the last step is in a checkpoint.
  bool is_saved_already(const Error& error) {
    if (!environment_.stop.stop_requested() || !is_secondary_failure(error)) return false;
    if (const auto outcome = checkpointer_.cancel_write(); outcome && !outcome->error) {
      newest_checkpoint_ = outcome->path;
      summary_.checkpoint_step = outcome->step;
    }
    if (newest_checkpoint_.empty() || summary_.checkpoint_step != summary_.steps) return false;
    summary_.outcome = "interrupted";
    return true;
  }

  void take_steps() {
    summary_.outcome = "done";
    while (summary_.steps < run_.training.steps) {
      const std::int64_t step = summary_.steps + 1;
      report_activity(fmt::format("finishing step {}{}", step,
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
    if (run_.checkpoint.every > 0 && last_finite_step_ == summary_.steps) {
      if (newest_checkpoint_.empty() || summary_.checkpoint_step != summary_.steps)
        write_checkpoint(summary_.steps, OldCheckpoints::kRemove);
      handle_outcome(checkpointer_.wait(), OnDiskError::kGoOn);
    }
    environment_.release_leaving_hosts();
    engine_failed_ = true;
    throw_error(ErrorCode::kUnavailable, "{}", what);
  }

  /// Runs `call` and marks an exception as the engine's, which may be recoverable.
  template <typename Call>
  auto engine_failed(const Call& call) {
    try {
      return call();
    } catch (...) {
      engine_failed_ = true;
      throw;
    }
  }

  /// Recovers the engine and rolls training back to the newest complete state. Throws `error` if
  /// the engine cannot recover from it, and the errors of the recovery.
  void rollback(Error error) {
    const TimePoint begun = environment_.clock.now();
    const std::int64_t reached = summary_.steps;
    if (const auto outcome = checkpointer_.cancel_write(); outcome && !outcome->error) {
      newest_checkpoint_ = outcome->path;
      summary_.checkpoint_step = outcome->step;
    } else if (outcome && !outcome->engine_intact && is_secondary_failure(error) &&
               !is_secondary_failure(*outcome->error)) {
      error = *outcome->error;
    }
    while (true) {
      if (!std::exchange(engine_failed_, false) || !engine_.recovers_from(error))
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
    std::optional<fs::path> checkpoint = store_.newest_up_to(summary_.steps);
    if (!checkpoint) checkpoint = resumed_from_;
    std::optional<StoredCheckpoint> stored;
    if (checkpoint) stored.emplace(*checkpoint);
    const std::int64_t step =
        restore_newest(stored ? &*stored : nullptr, kept_step, engine_, engine_failed_).step;
    engine_failed_ = false;
    // Steps after `step` are repeated.
    reporter_.discard_pending();
    metrics_.rollback(step);
    tell_metrics_problem();
    summary_.steps = step;
    last_finite_step_ = std::min(last_finite_step_, step);
    checkpoint_due_ = false;
    return step;
  }

  void tell_recovery(const mesh::TrainingEngine::Recovered& recovered, std::int64_t step,
                     std::int64_t reached, Nanoseconds took) {
    const std::string text = describe(recovered, step, reached, took);
    progress_.note("  " + text);
    if (environment_.on_recovery) environment_.on_recovery(text);
  }

  void do_step(std::int64_t step) {
    const bool traced =
        step >= std::min(first_ + kFirstTraced, run_.training.steps) && num_traced_ < kNumTraced;
    mesh::StepRequest request;
    request.program = mesh::kTrainProgram;
    request.step = step;
    request.trace = traced;
    request.optimizer = {.learning_rate = learning_rate(run_.training, step),
                         .beta1 = run_.training.beta1,
                         .beta2 = run_.training.beta2,
                         .epsilon = run_.training.epsilon,
                         .weight_decay = run_.training.weight_decay,
                         .clip_norm = run_.training.clip_norm,
                         .number = step};

    const TimePoint begun = environment_.clock.now();
    const mesh::StepResult result = engine_failed([&] { return engine_.run(request); });
    const TimePoint done = environment_.clock.now();
    if (step == first_) summary_.seconds_to_first_step = in_seconds(done - run_.started);
    if (traced && ++num_traced_ == kNumTraced) write_traces();

    StepMetrics m;
    m.step = step;
    m.loss = result.loss;
    m.grad_norm = result.grad_norm;
    m.update_skipped = !std::isfinite(result.grad_norm);
    m.learning_rate = request.optimizer.learning_rate;
    m.seconds = in_seconds(done - begun);
    m.checkpoint_seconds =
        in_seconds(checkpointer_.paused() - std::exchange(paused_before_, checkpointer_.paused()));
    m.unit = run_.unit;
    m.units_per_second = m.seconds > 0 ? run_.units_per_step / m.seconds : 0;
    m.transfer_seconds = result.transfer_seconds / result.devices;
    m.exposed_transfer_seconds = result.exposed_transfer_seconds / result.devices;
    m.resharded_bytes = result.reshard_bytes;
    if (validates_after(run_.training, step)) m.validation_loss = validate();
    try_metrics([&] { metrics_.append(m); });
    summary_.steps = step;
    handle_outcome(checkpointer_.poll(), OnDiskError::kGoOn);
    progress_.step(m);
    reporter_.report({m.step, run_.training.steps, m.loss, progress_.units_per_second(), m.unit,
                      progress_.seconds_left()},
                     done);
    if (!result.note.empty()) progress_.note("  " + result.note);
    check_divergence(m, result.first_nonfinite_parameter);
    if (run_.checkpoint.every > 0 && step % run_.checkpoint.every == 0) checkpoint_due_ = true;
    if (environment_.checkpoint_requested && environment_.checkpoint_requested())
      ask_for_checkpoint(step);
    if (checkpoint_due_ && step < run_.training.steps) checkpoint_if_finite(m);
    if (best_ && best_->is_improved_by(m.validation_loss)) keep_as_best(m);
    engine_failed([&] { engine_.snapshot_state(step); });
  }

  void ask_for_checkpoint(std::int64_t step) {
    if (run_.checkpoint.every == 0)
      return progress_.note("  no checkpoint was written on request, since checkpoint.every is 0");
    progress_.note(fmt::format("  writing the requested checkpoint of step {}", step));
    checkpoint_due_ = true;
  }

  /// Returns the mean loss of fixed batches of the held-out part.
  double validate() {
    double sum = 0;
    for (std::int64_t batch = 0; batch < run_.training.validation_batches; ++batch) {
      mesh::StepRequest request;
      request.program = mesh::kValidateProgram;
      request.step = batch;
      request.split = mesh::Split::kValidation;
      sum += engine_failed([&] { return engine_.run(request).loss; });
    }
    return sum / run_.training.validation_batches;
  }

  std::string name_of(std::optional<std::uint32_t> parameter) const {
    if (!parameter) return "";
    const Graph& graph = engine_.graph();
    return graph.value(graph.parameters()[*parameter].value).name;
  }

  /// Counts consecutive steps with a non-finite loss or gradients, and ends the run after too many.
  void check_divergence(const StepMetrics& m, std::optional<std::uint32_t> not_finite) {
    if (!m.update_skipped && std::isfinite(m.loss)) {
      last_finite_step_ = m.step;
      return;
    }
    const std::int64_t in_a_row = m.step - last_finite_step_;
    const std::string what =
        m.update_skipped ? fmt::format("its gradients are not finite (the first is that of '{}')",
                                       name_of(not_finite))
                         : fmt::format("its loss is {}", m.loss);
    if (in_a_row >= run_.training.max_skipped_updates) {
      handle_outcome(checkpointer_.wait(),
                     OnDiskError::kGoOn);  // divergence_advice() may advise this checkpoint
      throw_error(
          ErrorCode::kFailedPrecondition,
          "training has diverged: step {} is the {} in a row without a valid update: {}. {}",
          m.step, ordinal(in_a_row), what, divergence_advice());
    }
    // Reports the 1st, 2nd, 4th, 8th, ... skip, so that frequent skips do not fill the screen.
    if (m.update_skipped && std::has_single_bit(static_cast<std::uint64_t>(++skipped_)))
      progress_.note(fmt::format("  step {}: {}; the update is skipped, the {} of this run", m.step,
                                 what, ordinal(skipped_)));
  }

  /// Returns advice after divergence. The state after `last_finite_step_` produced the bad
  /// gradients, so only older checkpoints are advised.
  std::string divergence_advice() const {
    const auto checkpoint = store_.newest_up_to(last_finite_step_ - 1);
    return "Lower training.learning_rate or training.clip_norm, or look at the data of that step" +
           (checkpoint
                ? fmt::format("; resume from an earlier step with --set checkpoint.resume={}",
                              checkpoint->string())
                : std::string("; there is no earlier checkpoint, so start a new run"));
  }

  /// Writes a checkpoint if loss, gradients and validation loss are finite.
  void checkpoint_if_finite(const StepMetrics& m) {
    if (last_finite_step_ == m.step && std::isfinite(m.validation_loss.value_or(0))) {
      write_checkpoint(m.step, OldCheckpoints::kRemove);
      handle_outcome(checkpointer_.poll(), OnDiskError::kGoOn);
    } else if (m.step % run_.checkpoint.every == 0) {
      progress_.note(fmt::format(
          "  no checkpoint of step {}: its loss, gradients or validation loss are not finite",
          m.step));
    }
  }

  /// Saves the parameters as the best so far. If the disk refuses them, the previous best stays.
  void keep_as_best(const StepMetrics& m) {
    handle_outcome(checkpointer_.wait(),
                   OnDiskError::kGoOn);  // the engine has one copy of its state
    const auto refused =
        engine_failed([&] { return best_->write(m.step, *m.validation_loss, engine_); });
    if (refused)
      progress_.note(fmt::format("  the parameters of step {}, the best so far, are not kept: {}",
                                 m.step, refused->message()));
  }

  void report_activity(const std::string& what) const {
    if (environment_.on_activity) environment_.on_activity(what);
  }

  /// Reaction to a checkpoint that the disk refuses.
  enum class OnDiskError : std::uint8_t { kGoOn, kTryAgainNow, kFail };

  /// Starts a checkpoint after the previous one. Synchronous if the engine cannot copy its state.
  void write_checkpoint(std::int64_t step, OldCheckpoints old_ones) {
    report_activity(fmt::format(
        "{}writing the checkpoint of step {}",
        checkpointer_.in_progress() ? "waiting for the checkpoint before, then " : "", step));
    const TimePoint begun = environment_.clock.now();
    if (const auto before = checkpointer_.wait()) {
      const double waited = in_seconds(environment_.clock.now() - begun);
      handle_outcome(before, OnDiskError::kTryAgainNow);
      if (waited > kLongestSilentWait && !std::exchange(wait_reported_, true))
        progress_.note(
            fmt::format("  training waited for {} after step {}: the checkpoint of step {} was "
                        "still being written; a "
                        "larger checkpoint.every avoids that",
                        format_seconds(waited), step, before->step));
    }
    checkpoint_due_ = false;
    try_metrics([&] { metrics_.flush(); });
    engine_failed([&] {
      checkpointer_.begin({step, run_.seed, run_.model_digest, parameter_list(engine_.graph())},
                          old_ones);
    });
  }

  /// Handles the outcome of a checkpoint, if any. Throws errors of the engine.
  void handle_outcome(const std::optional<BackgroundCheckpointer::Outcome>& outcome,
                      OnDiskError on_refusal) {
    summary_.checkpoint_seconds = in_seconds(checkpointer_.paused());
    if (!outcome) return;
    if (!outcome->error) {
      newest_checkpoint_ = outcome->path;
      summary_.checkpoint_step = outcome->step;
      return;
    }
    const Error& error = *outcome->error;
    if (!outcome->engine_intact) {
      engine_failed_ = true;
      throw Error(error);
    }
    if (error.code() == ErrorCode::kFailedPrecondition)
      throw_error(error.code(), "training has diverged: {}, so no checkpoint of it was written. {}",
                  error.message(), divergence_advice());
    const std::string newest =
        summary_.checkpoint_step > 0
            ? fmt::format("the newest is of step {}", summary_.checkpoint_step)
            : "there is none";
    if (on_refusal == OnDiskError::kFail)
      throw_error(error.code(), "the last checkpoint, of step {}, could not be written ({}): {}",
                  outcome->step, newest, error.message());
    const std::int64_t now = std::max(outcome->step, summary_.steps), every = run_.checkpoint.every;
    const std::string next =
        on_refusal == OnDiskError::kTryAgainNow
            ? "the next one is tried now"
            : fmt::format("training goes on, and the next one is tried after step {}",
                          std::min((now / every + 1) * every, run_.training.steps));
    progress_.note(fmt::format("  no checkpoint of step {} ({}): {}; {}", outcome->step, newest,
                               error.message(), next));
  }

  /// Ensures that the last step is in a checkpoint; the one in progress may be of that step.
  void write_last_checkpoint() {
    report_activity(fmt::format("writing the checkpoint of step {}", summary_.steps));
    handle_outcome(checkpointer_.wait(), OnDiskError::kTryAgainNow);
    if (newest_checkpoint_.empty() || summary_.checkpoint_step != summary_.steps) {
      write_checkpoint(summary_.steps, last_finite_step_ == summary_.steps ? OldCheckpoints::kRemove
                                                                           : OldCheckpoints::kKeep);
    }
    handle_outcome(checkpointer_.wait(), OnDiskError::kFail);
  }

  /// Runs `write` and reports a disk error once, since lost metrics should not end the run. The
  /// lines are written when the disk accepts them again.
  template <typename Write>
  void try_metrics(const Write& write) {
    try {
      write();
    } catch (const Error& error) {
      tell_metrics_problem(error);
    }
  }

  void tell_metrics_problem(const Error& error) {
    if (!std::exchange(metrics_error_reported_, true))
      progress_.note("  " + error.message() +
                     "; training continues, and the lines are written when the disk accepts them");
  }
  void tell_metrics_problem() {
    if (metrics_.write_error()) tell_metrics_problem(*metrics_.write_error());
  }

  /// Writes the last checkpoint. Without checkpoints, writes a file of parameters if the app has a
  /// final report. Returns the file for that report, which is made after the devices are released;
  /// empty if there is none.
  fs::path last_values() {
    if (run_.checkpoint.every > 0) {
      write_last_checkpoint();
      return model_file(newest_checkpoint_);
    }
    if (!run_.report_on_model || summary_.outcome != "done") return {};
    temporary_ = environment_.directory.path() / ".shown.safetensors";
    try {
      if (engine_.supports_copies()) engine_.copy_state();
      SafetensorsWriter values(temporary_, parameter_list(engine_.graph()));
      engine_.gather([&](const StateSlice& piece, std::span<const float> part) {
        if (piece.block == StateBlock::kValue) values.write(piece.parameter, piece.first, part);
      });
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      note_report_failure(error.message());
      return {};
    }
    return temporary_;
  }

  void note_report_failure(const std::string& why) {
    progress_.note("  the run is done, but the final report failed: " + why);
  }

  void make_final_report(const fs::path& file) {
    if (file.empty()) return;
    report_activity("the training is done and saved; making the final report");
    const std::uint64_t needed = run_.parameters * sizeof(float);
    if (const auto free = available_memory(); free && needed > *free)
      return note_report_failure(
          fmt::format("its parameters take {}, and this machine has {} of memory free",
                      format_bytes(needed), format_bytes(*free)));
    try {
      const SafetensorsFile values(file);
      TrainedValues trained{.parameters = values.tensors(), .step = summary_.steps};
      std::optional<SafetensorsFile> best;
      if (best_ && best_->step() > 0) {
        trained.best = &best.emplace(best_->path()).tensors();
        trained.best_step = best_->step();
      }
      summary_.report = run_.report_on_model(trained, environment_.directory.path());
    } catch (...) {
      return note_report_failure(current_error().message());
    }
    const FinalReport& report = summary_.report;
    try {
      write_atomically(
          report.prose ? environment_.directory.sample() : environment_.directory.scores(),
          report.text + "\n", 0666);
    } catch (const Error& error) {
      progress_.note("  " + error.message());  // the screen shows the report anyway
    }
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
  /// Last step with finite loss and gradients; initially the step that the run starts after.
  std::int64_t last_finite_step_;
  std::int64_t skipped_ = 0;  ///< Updates skipped by this process.
  bool checkpoint_due_ = false;
  fs::path temporary_;                   ///< Temporary file of parameters; removed at the end.
  fs::path newest_checkpoint_;           ///< Newest checkpoint written by this process.
  bool metrics_error_reported_ = false;  ///< True once a metrics error was reported.
  bool wait_reported_ = false;  ///< True once a wait for the previous checkpoint was reported.
  bool engine_failed_ = false;  ///< True if the last exception came from the engine.
  const std::optional<fs::path> resumed_from_;
  MetricsFile metrics_;
  std::optional<BestParameters> best_;  ///< Set if the run keeps the best parameters.
  CheckpointStore store_;
  BackgroundCheckpointer checkpointer_;
  Nanoseconds paused_before_ = Nanoseconds::zero();  ///< Pause for checkpoints up to the last step.
  ProgressDisplay progress_;
  ProgressReporter reporter_{environment_.on_progress};
  RunSummary summary_;
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

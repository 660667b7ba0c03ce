#include "apps/train/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <vector>

#include "apps/run_files/branch.h"
#include "apps/run_files/checkpoint.h"
#include "apps/run_files/metrics.h"
#include "apps/train/model_parameters.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/units.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

/// Makes the run's folder continue from the checkpoint's step: moves later checkpoints aside and
/// keeps only the metrics up to that step. Returns the folder with the moved files, if there are
/// any.
std::optional<fs::path> branch_from_checkpoint(const fs::path& checkpoint, std::int64_t step,
                                               const RunDirectory& directory, bool restarted) {
  const fs::path own = directory.metrics();
  const fs::path theirs = checkpoint.parent_path().parent_path() / own.filename();
  const bool same = fs::exists(own) && fs::exists(theirs) && fs::equivalent(own, theirs);
  const std::vector<StepMetrics> steps = read_metrics(own);
  return begin_branch(
      {.folder = directory.checkpoints(),
       .from = checkpoint,
       .move_target = directory.next_abandoned_folder(),
       .metrics_differ = !restarted && !steps.empty() && (!same || steps.back().step > step),
       .keep_metrics =
           [&](const fs::path& aside) {
             // An existing copy is complete: an earlier call made it before a crash. It is older
             // than the current metrics, so it stays.
             if (!fs::exists(aside / own.filename())) copy_metrics(own, aside / own.filename());
           },
       .install_metrics =
           [&] {
             if (!same && fs::exists(theirs)) copy_metrics(theirs, own);
             // drops the lines after `step`
             if (const MetricsFile metrics(own, step); metrics.write_error())
               throw Error(*metrics.write_error());
           }});
}

bool same_parameters(const ParameterList& a, const ParameterList& b) {
  return std::ranges::equal(a, b, [](const TensorDeclaration& x, const TensorDeclaration& y) {
    return x.name == y.name && x.shape == y.shape;
  });
}

/// Calls restore_newest() and recovers from failures until it succeeds.
RestoredState restore_with_recovery(const StoredCheckpoint* stored, std::int64_t kept_step,
                                    mesh::TrainingEngine& engine,
                                    const LoopEnvironment& environment) {
  std::optional<mesh::TrainingEngine::Recovered> recovered;
  TimePoint begun = environment.clock.now();
  while (true) {
    bool engine_failed = false;
    std::optional<Error> error;
    try {
      const RestoredState restored = restore_newest(stored, kept_step, engine, engine_failed);
      if (recovered) {
        const std::string text =
            describe(*recovered, restored.step, restored.step, environment.clock.now() - begun);
        say(environment.screen.out, "  {}\n", text);
        if (environment.on_recovery) environment.on_recovery(text);
      }
      return restored;
    } catch (...) {
      error = current_error();
    }
    if (!engine_failed || !engine.recovers_from(*error)) throw Error(*error);
    begun = environment.clock.now();
    recovered = engine.recover(*error);
    kept_step = recovered->kept_step;
  }
}

/// Reports the step at which a restarted driver resumes.
void report_inherited_step(const LoopEnvironment& environment, std::int64_t step) {
  const std::vector<StepMetrics> steps = read_metrics(environment.directory.metrics());
  const std::int64_t repeated =
      steps.empty() ? 0 : std::max<std::int64_t>(0, steps.back().step - step);
  const std::string text = fmt::format(
      "the restarted driver resumes at step {} from the memory of the devices ({} step{} repeated)",
      step, repeated, repeated == 1 ? "" : "s");
  say(environment.screen.out, "  {}\n", text);
  std::fflush(environment.screen.out);
  if (environment.on_recovery) environment.on_recovery(text);
}

}  // namespace

RestoredState restore_newest(const StoredCheckpoint* stored, std::int64_t kept_step,
                             mesh::TrainingEngine& engine, bool& engine_failed) {
  engine_failed = true;
  const std::int64_t stored_step = stored == nullptr ? 0 : stored->heading().step;
  if (kept_step > 0 && kept_step >= stored_step) {
    engine.restore_snapshot();
    return {kept_step, true};
  }
  if (stored == nullptr) {
    engine.reset_parameters();
    return {};
  }
  engine.restore(
      [&](const StateSlice& piece, std::span<float> values) {
        engine_failed = false;
        stored->read(piece, values);
        engine_failed = true;
      },
      stored_step);
  return {stored_step, false};
}

std::string describe(const mesh::TrainingEngine::Recovered& recovered, std::int64_t step,
                     std::int64_t reached, Nanoseconds took) {
  const std::int64_t repeated = reached - step;
  return fmt::format("{}; back at step {}{} after {} ({} step{} repeated), restart {} of {}",
                     recovered.cause, step, recovered.where.empty() ? "" : " on " + recovered.where,
                     format_seconds(in_seconds(took)), repeated, repeated == 1 ? "" : "s",
                     recovered.restart, recovered.max_restarts);
}

ResumePoint resume(const TrainingRun& run, mesh::TrainingEngine& engine,
                   const LoopEnvironment& environment) {
  // Step that devices kept for an earlier driver of this run.
  const std::int64_t inherited = engine.adopted_step();
  if (!run.checkpoint.resume) {
    if (inherited == 0) return {};
    const RestoredState restored = restore_with_recovery(nullptr, inherited, engine, environment);
    if (restored.kept) report_inherited_step(environment, restored.step);
    return {restored.step};
  }
  const fs::path path = find_checkpoint(*run.checkpoint.resume);
  const StoredCheckpoint stored(path);
  const CheckpointMetadata& checkpoint = stored.heading();
  if (checkpoint.model_digest != run.model_digest)
    throw_error(ErrorCode::kIncompatible,
                "the checkpoint {} is of another model, data set or seed; resume with the "
                "`model:`, `data:` and `seed:` that made it",
                path.string());
  if (checkpoint.step >= run.training.steps && !run.restarted)
    throw_error(
        ErrorCode::kFailedPrecondition,
        "the checkpoint {} already has all {} steps; raise the number with --set training.steps=N",
        path.string(), checkpoint.step);
  if (!same_parameters(checkpoint.parameters, parameter_list(engine.graph())))
    throw_error(ErrorCode::kIncompatible,
                "the parameters of the checkpoint do not match the model; resume with the `model:` "
                "that made it");
  const RestoredState restored = restore_with_recovery(&stored, inherited, engine, environment);
  if (restored.kept) {
    report_inherited_step(environment, restored.step);
    return {restored.step, path, checkpoint.step};
  }
  std::optional<fs::path> aside;
  try {
    aside = branch_from_checkpoint(path, checkpoint.step, environment.directory, run.restarted);
  } catch (const Error& error) {
    // A restarted driver continues in the run's own folder, which already leads to its newest
    // checkpoint.
    if (!run.restarted || error.code() != ErrorCode::kUnavailable) throw;
    say(environment.screen.out, "  {}; training goes on without it\n", error.message());
  }
  say(environment.screen.out, "  resumed from {}, after step {}\n", path.string(), checkpoint.step);
  if (aside)
    say(environment.screen.out, "  later steps of this run, after step {}, were moved to {}\n",
        checkpoint.step, aside->string());
  std::fflush(environment.screen.out);
  return {checkpoint.step, path, checkpoint.step};
}

}  // namespace weft::apps

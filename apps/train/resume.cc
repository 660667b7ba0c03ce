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

/// The run owns its folder from the checkpoint's step on: what came after it moves aside, and
/// metrics are those that lead to it. Gives where things went, if any did.
std::optional<fs::path> take_over(const fs::path& checkpoint, std::int64_t step,
                                  const RunDirectory& directory, bool restarted) {
  const fs::path own = directory.metrics();
  const fs::path theirs = checkpoint.parent_path().parent_path() / own.filename();
  const bool same = fs::exists(own) && fs::exists(theirs) && fs::equivalent(own, theirs);
  const std::vector<StepMetrics> steps = read_metrics(own);
  return begin_branch(
      {.folder = directory.checkpoints(),
       .from = checkpoint,
       .aside = directory.next_abandoned(),
       .metrics_differ = !restarted && !steps.empty() && (!same || steps.back().step > step),
       .keep_metrics =
           [&](const fs::path& aside) {
             // What a call that a crash ended has copied is whole, and older than
             // what it then wrote here.
             if (!fs::exists(aside / own.filename())) copy_metrics(own, aside / own.filename());
           },
       .take_over_metrics =
           [&] {
             if (!same && fs::exists(theirs)) copy_metrics(theirs, own);
             MetricsFile(own, step);  // drops the lines after it
           }});
}

bool same_parameters(const ParameterList& a, const ParameterList& b) {
  return std::ranges::equal(a, b, [](const TensorPlace& x, const TensorPlace& y) {
    return x.name == y.name && x.shape == y.shape;
  });
}

/// The same, whatever dies meanwhile.
void restore_in_the_end(const StoredCheckpoint& stored, mesh::TrainingEngine& engine,
                        const LoopEnvironment& environment) {
  const std::int64_t step = stored.heading().step;
  while (true) {
    bool by_engine = false;
    std::optional<Error> error;
    try {
      return restore(stored, engine, by_engine);
    } catch (...) {
      error = current_error();
    }
    if (!by_engine || !engine.recovers_from(*error)) throw Error(*error);
    const TimePoint begun = environment.clock.now();
    const auto recovered = engine.recover(*error);
    const std::string text = describe(recovered, step, step, environment.clock.now() - begun);
    say(environment.screen.out, "  {}\n", text);
    if (environment.on_recovery) environment.on_recovery(text);
  }
}

/// Where the driver before this one has left something newer than a checkpoint of `step` in the
/// memory of devices: goes on from that, and gives its step. Else, or where that dies, nothing.
std::optional<std::int64_t> restore_inherited(const TrainingRun& run, mesh::TrainingEngine& engine,
                                              std::int64_t checkpoint_step) {
  std::int64_t step = run.restarted ? engine.inherited_step() : 0;
  const auto is_newer = [&] { return step > 0 && step >= checkpoint_step; };
  const bool tried = is_newer();
  while (is_newer()) {
    std::optional<Error> error;
    try {
      engine.restore_kept();
      return step;
    } catch (...) {
      error = current_error();
    }
    if (!engine.recovers_from(*error)) throw Error(*error);
    step = engine.recover(*error).kept_step;
  }
  if (tried && checkpoint_step == 0) engine.begin_anew();
  return std::nullopt;
}

/// Says where a driver that was started again goes on.
void tell_inherited(const LoopEnvironment& environment, std::int64_t step) {
  const std::vector<StepMetrics> steps = read_metrics(environment.directory.metrics());
  const std::int64_t repeated =
      steps.empty() ? 0 : std::max<std::int64_t>(0, steps.back().step - step);
  const std::string text = fmt::format(
      "its next driver goes on at step {} from the memory of the devices ({} step{} repeated)",
      step, repeated, repeated == 1 ? "" : "s");
  say(environment.screen.out, "  {}\n", text);
  std::fflush(environment.screen.out);
  if (environment.on_recovery) environment.on_recovery(text);
}

}  // namespace

void restore(const StoredCheckpoint& stored, mesh::TrainingEngine& engine, bool& by_engine) {
  by_engine = true;
  engine.restore(
      [&](const StatePiece& piece, std::span<float> values) {
        by_engine = false;
        stored.read(piece, values);
        by_engine = true;
      },
      stored.heading().step);
  by_engine = false;
}

std::string describe(const mesh::TrainingEngine::Recovered& recovered, std::int64_t step,
                     std::int64_t reached, Nanoseconds took) {
  const std::int64_t repeated = reached - step;
  return fmt::format("{}; back at step {}{} after {} ({} step{} repeated), restart {} of {}",
                     recovered.cause, step, recovered.where.empty() ? "" : " on " + recovered.where,
                     format_seconds(in_seconds(took)), repeated, repeated == 1 ? "" : "s",
                     recovered.restart, recovered.most);
}

Resumed resume(const TrainingRun& run, mesh::TrainingEngine& engine,
               const LoopEnvironment& environment) {
  if (!run.checkpoint.resume) {
    const auto kept = restore_inherited(run, engine, 0);
    if (kept) tell_inherited(environment, *kept);
    return {kept.value_or(0)};
  }
  const fs::path path = find_checkpoint(*run.checkpoint.resume);
  const StoredCheckpoint stored(path);
  const CheckpointHeading& checkpoint = stored.heading();
  if (checkpoint.model_digest != run.model_digest)
    throw_error(ErrorCode::kIncompatible,
                "the checkpoint {} is of another model, data set or seed; resume with the "
                "`model:`, `data:` and `seed:` that made it",
                path.string());
  if (checkpoint.step >= run.training.steps && !run.restarted)
    throw_error(ErrorCode::kFailedPrecondition,
                "the checkpoint {} has all {} steps done; ask for more with --set training.steps=N",
                path.string(), checkpoint.step);
  if (!same_parameters(checkpoint.parameters, parameter_list(engine.graph())))
    throw_error(ErrorCode::kIncompatible,
                "the checkpoint's parameters are not those of this model");
  if (const auto kept = restore_inherited(run, engine, checkpoint.step)) {
    tell_inherited(environment, *kept);
    return {*kept, path, checkpoint.step};
  }
  restore_in_the_end(stored, engine, environment);
  const auto aside = take_over(path, checkpoint.step, environment.directory, run.restarted);
  say(environment.screen.out, "  resumed from {}, after step {}\n", path.string(), checkpoint.step);
  if (aside)
    say(environment.screen.out, "  what this run had after step {} has moved to {}\n",
        checkpoint.step, aside->string());
  std::fflush(environment.screen.out);
  return {checkpoint.step, path, checkpoint.step};
}

}  // namespace weft::apps

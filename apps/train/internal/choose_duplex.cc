#include "apps/train/internal/choose_duplex.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/units.h"
#include "mesh/costs/program_seconds.h"

namespace weft::apps {
namespace {

using mesh::Duplex;

/// Gain below which actions do not run interleaved.
constexpr double kMinGain = 1.02;

/// A choice and its step.
struct DuplexForecast {
  Duplex duplex = Duplex::kOff;
  double seconds = 0;
};

/// Returns the run with this choice. Throws Error if it is not possible.
RunConfig with_duplex(const ConfigNode& root, RunConfig config, TrainingApp& app, Duplex duplex) {
  config.layout.duplex = duplex;
  if (duplex != Duplex::kOff && config.layout.lowering == mesh::Lowering::kSafe)
    throw_error(ErrorCode::kInvalidConfig, "lowering: safe interleaves nothing");
  if (config.training.batch % config.layout.step_microbatches() != 0)
    throw_error(ErrorCode::kInvalidConfig, "the rows of a microbatch do not halve");
  config.model = app.describe_model(root, config.batch(), config.seed);
  return config;
}

DuplexForecast forecast(const ConfigNode& root, const RunConfig& config, TrainingApp& app,
                        Duplex duplex) {
  const mesh::TrainingPlan plan = plan_of(with_duplex(root, config, app, duplex));
  const auto seconds =
      program_seconds(plan, mesh::cost_model_seconds(plan.conditions.device_flops()));
  return {duplex, simulate_step(plan, seconds).step};
}

}  // namespace

void choose_duplex(const ConfigNode& root, RunConfig& config, TrainingApp& app) {
  if (config.layout.duplex != Duplex::kAuto) return;
  const DuplexForecast off = forecast(root, config, app, Duplex::kOff);
  DuplexForecast best = off;
  std::string others;
  for (const Duplex duplex : {Duplex::kHalves, Duplex::kCross}) {
    try {
      const DuplexForecast one = forecast(root, config, app, duplex);
      others += fmt::format(", {} {}", to_string(duplex), format_seconds(one.seconds));
      if (one.seconds < best.seconds) best = one;
    } catch (const Error& error) {
      others += fmt::format("; {} is not possible: {}", to_string(duplex), error.message());
    }
  }
  if (best.seconds * kMinGain > off.seconds) best = off;
  config = with_duplex(root, std::move(config), app, best.duplex);
  config.layout.duplex_reason =
      fmt::format("forecast of a step: off {}{}", format_seconds(off.seconds), others);
}

}  // namespace weft::apps

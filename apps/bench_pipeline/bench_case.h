#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench_pipeline/arm.h"
#include "apps/bench_pipeline/pipeline_model.h"

namespace weft::apps {

/// What `weft bench pipeline` was asked for.
struct BenchOptions {
  /// Names or groups; empty: all but what is only run when asked for.
  std::vector<std::string> cases;
  std::vector<std::string> schedules = {"1f1b", "eager-1f1b", "zb-h1", "auto"};
  std::vector<double> ratios = {0.25, 0.5, 1.0};  ///< Of real compute: transfer over F+B.
  /// The whole grid for the paper's models instead of bundles.
  bool all_arms = false;
  int microbatches = 0;   ///< 0: the model's.
  int steps = 3;          ///< Measured, after one to warm up.
  bool quick = false;     ///< Fewer microbatches and steps.
  bool simulate = false;  ///< Programs are compiled and played in time; nothing is started.
  /// On this machine as it is, even where test hosts are to be had.
  bool loopback = false;
  /// A command that measures another system on real compute; empty: none.
  std::string peer;
  std::string json;  ///< A file, "-" for stdout, or empty.
  std::filesystem::path out = "runs/bench-pipeline";
};

/// A workload with its links and arms.
struct PipelineCase {
  std::string name;
  std::string group;  ///< Cases that belong together: one picture, and one word for --cases.
  std::string text;   ///< What it shows.
  PipelineModelRequest model;
  /// Links are shaped so that moving a boundary's tensors takes this part of F+B of the slowest
  /// stage.
  std::optional<double> transfer_ratio = {};
  std::vector<Arm> arms;
  bool with_peer = false;
  bool when_asked = false;  ///< Not among "all".
  /// Each arm has a model, and processes, of its own: schedule and vocabulary decide what lies
  /// where.
  bool model_of_arm = false;
};

/// The cases asked for. Throws Error(kInvalidArgument) naming what there is.
std::vector<PipelineCase> pipeline_cases(const BenchOptions& options);
/// Every case that there is, with these options.
std::vector<PipelineCase> all_pipeline_cases(const BenchOptions& options);

}  // namespace weft::apps

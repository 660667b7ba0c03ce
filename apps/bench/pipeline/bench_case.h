#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/pipeline/arm.h"
#include "apps/bench/pipeline/pipeline_model.h"

namespace weft::apps {

/// Command-line options of `weft bench pipeline`.
struct PipelineBenchOptions {
  /// Names or groups; empty: all that do not run on request only.
  std::vector<std::string> cases;
  std::vector<std::string> schedules = {"1f1b", "eager-1f1b", "zb-h1", "auto"};
  std::vector<double> ratios = {0.25, 0.5, 1.0};  ///< Transfer time over F+B, for real compute.
  /// True: every combination of arms for the paper's models, instead of selected ones.
  bool all_arms = false;
  int microbatches = 0;   ///< 0: the model's number.
  int steps = 3;          ///< Measured steps, after one warm-up step.
  bool quick = false;     ///< True for fewer microbatches and steps.
  bool simulate = false;  ///< True to compile and simulate programs without starting processes.
  /// True to use loopback even if test hosts are available.
  bool loopback = false;
  /// Command that measures another system on real compute; empty: none.
  std::string peer;
};

/// Workload with its links and arms.
struct PipelineCase {
  std::string name;
  std::string group;  ///< Name of related cases, for --cases and plots.
  std::string text;   ///< Description for users.
  PipelineModelRequest model;
  /// Transfer time of a boundary's tensors over F+B of the slowest stage, to which links are
  /// shaped.
  std::optional<double> transfer_ratio = {};
  std::vector<Arm> arms;
  bool with_peer = false;
  bool on_request_only = false;  ///< True if the case runs on request only.
  /// True if each arm has its own model and processes, since schedule and vocabulary decide the
  /// placement.
  bool model_per_arm = false;
};

/// Returns the requested cases. Throws Error(kInvalidArgument) that lists the groups.
std::vector<PipelineCase> pipeline_cases(const PipelineBenchOptions& options);
/// Returns every case.
std::vector<PipelineCase> all_pipeline_cases(const PipelineBenchOptions& options);

}  // namespace weft::apps

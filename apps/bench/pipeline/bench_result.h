#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/pipeline/arm.h"

namespace weft::apps {

/// Result of a workload under one arm. Times are unscaled, as the workload ran.
struct ArmResult {
  Arm arm;
  std::vector<double> seconds;   ///< Time of each measured step on the slowest device; empty if
                                 ///< only simulated.
  double predicted_seconds = 0;  ///< Step time by the simulator; 0: not predicted.
  /// Compute seconds of the busiest device: median over steps.
  double busiest_seconds = 0;
  /// Seconds per step for which the busiest direction of a link is busy; 0: links are not shaped.
  double link_seconds = 0;
  /// Share of the reshard transfer time hidden by compute; see StepResult::hidden_share.
  double hidden_share = 1;
  /// Memory of the fullest device: activations, buffers, parameters, gradients.
  std::uint64_t peak_bytes = 0;
  std::int64_t actions = 0;  ///< Actions of the device that has most.
  std::string note;          ///< Remark, such as the schedule that `auto` improved.

  bool measured() const { return !seconds.empty(); }
  /// Measured step times; the predicted time if none was measured.
  double median() const;
  double minimum() const;
  double maximum() const;
  /// Returns the share of the step for which the busiest device is idle.
  double bubble() const { return 1 - busiest_seconds / median(); }
  /// Returns measured over predicted, minus 1.
  double prediction_error() const { return median() / predicted_seconds - 1; }
};

/// Time of another system for the same work on the same links.
struct PeerResult {
  std::string name;  ///< "PyTorch GPipe"
  double seconds = 0;
  bool whole = true;  ///< False: only part of the work, for comparison.
};

/// Results of a workload on links of some rate, under all arms.
struct WorkloadResult {
  std::string name;
  std::string description;
  bool emulated = false;
  std::uint64_t link_bits = 0;  ///< Rate of each host's link, each way; 0: not limited.
  /// Requested transfer time of a boundary's tensors over F+B of the slowest stage, if any.
  std::optional<double> transfer_ratio;
  int stages = 0;
  int microbatches = 0;
  std::int64_t vocabulary = 0;  ///< Rows of the vocabulary, if arms differ in its placement; else
                                ///< 0.
  double rows_per_step = 0;
  double flops_per_step = 0;  ///< FLOPs of the emulated model; 0: unknown.
  double time_scale = 1;      ///< Seconds that an emulated second stands for.
  double byte_scale = 1;      ///< Bytes that an emulated byte stands for.
  bool dispatch = false;      ///< True if actions take no time, so that only the runtime's overhead
                              ///< is measured.
  /// Seconds that a single microbatch waits for transfers: the first and the last one over each
  /// stage boundary, which no schedule can hide.
  double unhidable_seconds = 0;
  std::vector<ArmResult> arms;
  std::vector<PeerResult> peers;

  /// Returns the arm that speed-ups refer to: send_recv, blocking, 1f1b if it was run, else the
  /// first one. Null without arms.
  const ArmResult* baseline() const;
  /// Returns the fastest arm with Weft's resharding and real tensors; null if there is none.
  const ArmResult* best() const;
  /// Returns the fastest arm limited to the memory of a named schedule (Arm::memory_limit_of), for
  /// comparison with peers of that memory. Null if there is none.
  const ArmResult* best_within_memory() const;
  /// Returns the fastest arm with signals only; null if there is none.
  const ArmResult* signal() const;
  /// Returns the expected time of a step whose transfers are all hidden: the fastest signals-only
  /// arm plus unhidable_seconds; 0 if unknown. It is not a lower bound, since it contains the
  /// runtime's overhead and that arm's bubbles.
  double reference_seconds() const;
  /// Returns a lower bound for any schedule and runtime with these kernels, links and plans. It is
  /// the compute time of the busiest device or the busy time of the busiest link direction,
  /// whichever is longer, minimised over arms with tensors. 0 if unknown.
  double bound_seconds() const;
};

/// Formats a table for the terminal: the workload, a row per arm, then comparisons.
std::string to_table(const WorkloadResult& result);
/// Returns {"workloads": [{"name": ..., "arms": [...]}]}.
std::string to_json(const std::vector<WorkloadResult>& results);

}  // namespace weft::apps

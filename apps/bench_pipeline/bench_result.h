#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench_pipeline/arm.h"

namespace weft::apps {

/// What a workload did under one arm. A value. Times are of the workload as it ran, before any
/// scale.
struct ArmResult {
  Arm arm;
  std::vector<double> seconds;   ///< By measured step, of the slowest device; or simulated only.
  double predicted_seconds = 0;  ///< By the simulator; 0: not predicted.
  /// Computing, on the device that computes most: median over steps.
  double busiest_seconds = 0;
  /// For which the busiest direction of a link is busy in a step; 0: links are not shaped.
  double link_seconds = 0;
  /// Of the time in which resharded bytes arrived; see StepResult::hidden_share.
  double hidden_share = 1;
  /// Memory of the device that needs most: activations, buffers, parameters, gradients.
  std::uint64_t peak_bytes = 0;
  std::int64_t actions = 0;  ///< Of the device that has most.
  std::string note;          ///< Of `auto`: what it was improved from.

  bool measured() const { return !seconds.empty(); }
  /// What was measured; where nothing was, what the simulator says.
  double median() const;
  double minimum() const;
  double maximum() const;
  /// Share of the step in which the busiest device does not compute.
  double bubble() const { return 1 - busiest_seconds / median(); }
  /// Measured over predicted, minus 1.
  double prediction_error() const { return median() / predicted_seconds - 1; }
};

/// What another system needed for the same work on the same links.
struct PeerResult {
  std::string name;  ///< "PyTorch GPipe"
  double seconds = 0;
  bool whole = true;  ///< False: only a part of the work, to judge the rest by.
};

/// A workload on links of some rate, under all arms. A value.
struct WorkloadResult {
  std::string name;
  std::string description;
  bool emulated = false;
  std::uint64_t link_bits = 0;  ///< Of each host's link, each way; 0: not limited.
  /// Time to move a boundary's tensors over F+B of the slowest stage, where one was asked for.
  std::optional<double> transfer_ratio;
  int stages = 0;
  int microbatches = 0;
  std::int64_t vocabulary = 0;  ///< Its rows, where arms differ in where it lies; else 0.
  double rows_per_step = 0;
  double flops_per_step = 0;  ///< Of what is emulated; 0: unknown.
  double time_scale = 1;      ///< Emulated seconds stand for so many.
  double byte_scale = 1;      ///< Emulated bytes stand for so many.
  bool dispatch = false;      ///< Actions take no time: what is left is the runtime's.
  /// What a single microbatch has to wait for its transfers: the first and the last one over each
  /// stage boundary, which no schedule can hide.
  double unavoidable_seconds = 0;
  std::vector<ArmResult> arms;
  std::vector<PeerResult> peers;

  /// The arm that all speed-ups refer to: send_recv, blocking, 1f1b if it was run, else the first
  /// one. Null without arms.
  const ArmResult* baseline() const;
  /// The fastest arm with Weft's resharding and real tensors; null if there is none.
  const ArmResult* best() const;
  /// The fastest of those that may hold no more than a named schedule (Arm::memory_of): to be
  /// judged beside peers that hold as little. Null if there is none.
  const ArmResult* best_in_less_memory() const;
  /// The fastest one with signals only; null if there is none.
  const ArmResult* signal() const;
  /// What to expect of a step whose transfers are all hidden: Weft's own fastest arm with signals
  /// plus what cannot be hidden; 0 if unknown. Not a bound: the runtime's overhead and the bubbles
  /// of that arm's schedule are in it.
  double reference_seconds() const;
  /// No schedule and no runtime can be faster with these kernels, links and plans: computing of the
  /// busiest device, or the busiest direction of a link, whichever takes longer, in the arm with
  /// tensors in which that is least. 0 if unknown.
  double bound_seconds() const;
};

/// For the terminal: what it is, then a row per arm, then what came of it.
std::string to_table(const WorkloadResult& result);
/// {"workloads": [{"name": ..., "arms": [...]}]}
std::string to_json(const std::vector<WorkloadResult>& results);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/codec/codec.h"
#include "core/trace/trace_event.h"
#include "mesh/runtime/batch_source.h"
#include "mesh/schedule/action.h"
#include "transfer/nccl/operation_order.h"

template <>
struct weft::last_enumerator<weft::mesh::Split> {
  static constexpr auto kValue = weft::mesh::Split::kValidation;
};

namespace weft::mesh {

/// Settings of the optimizer for one step (see AdamW for the formula).
struct OptimizerStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;  ///< 0: gradients are not clipped.
  /// Step number for the bias correction, from 1. Includes steps whose update was skipped, so a
  /// resumed run needs no other count. After skipped steps the correction, and so the first
  /// updates, are a little too small.
  std::int64_t number = 1;
  static constexpr auto fields =
      weft::fields(&OptimizerStep::learning_rate, &OptimizerStep::beta1, &OptimizerStep::beta2,
                   &OptimizerStep::epsilon, &OptimizerStep::weight_decay, &OptimizerStep::clip_norm,
                   &OptimizerStep::number);
};

/// Request to run a program once: the only message per device and step.
struct StepRequest {
  std::string program;
  /// Number of the execution, over all programs and equal on all devices. Identifies its transfers.
  std::uint64_t execution_number = 0;
  std::uint64_t step = 0;  ///< Index of the batch to read.
  Split split = Split::kTrain;
  OptimizerStep optimizer;
  bool trace = false;
  static constexpr auto fields =
      weft::fields(&StepRequest::program, &StepRequest::execution_number, &StepRequest::step,
                   &StepRequest::split, &StepRequest::optimizer, &StepRequest::trace);
};

/// Position of a device in its program, or where its last execution ended.
struct ProgramPosition {
  std::string program;  ///< Empty before the first execution.
  std::uint64_t execution_number = 0;
  /// Index of the instruction; the number of instructions when done.
  std::uint64_t instruction = 0;
  /// Current transfer by device collectives.
  std::optional<transfer::OperationKey> collective;
  static constexpr auto fields =
      weft::fields(&ProgramPosition::program, &ProgramPosition::execution_number,
                   &ProgramPosition::instruction, &ProgramPosition::collective);
};

/// Mean time of one kind of action of a stage over a step.
struct ActionTime {
  std::int32_t stage = 0;
  ActionKind kind = ActionKind::kForward;
  std::uint32_t count = 0;        ///< Actions of this kind in the step.
  double seconds = 0;             ///< Seconds of computation, without waits.
  double collective_seconds = 0;  ///< Seconds of waiting for transfers within the mesh.
  static constexpr auto fields =
      weft::fields(&ActionTime::stage, &ActionTime::kind, &ActionTime::count, &ActionTime::seconds,
                   &ActionTime::collective_seconds);
};

/// Mean time of receiving a tensor of an edge between meshes, over a step.
struct EdgeTime {
  std::uint32_t op = 0;     ///< See PlannedEdge::op.
  std::uint32_t count = 0;  ///< Tensors in the step.
  double seconds = 0;       ///< Seconds from the first byte to the last.
  static constexpr auto fields = weft::fields(&EdgeTime::op, &EdgeTime::count, &EdgeTime::seconds);
};

/// Report of a device after a step.
struct StepReport {
  std::vector<float> losses;  ///< Loss per microbatch; empty if another device reports them.
  /// Global norm of the gradients before clipping; equal on all devices. If it is not finite, the
  /// update was skipped.
  double grad_norm = 0;
  /// First parameter, in the graph's order, with a gradient that is not finite; equal on all
  /// devices.
  std::optional<std::uint32_t> first_nonfinite_parameter;
  double step_seconds = 0;
  double compute_seconds = 0;
  /// Seconds in which the device waited for any reason, including bubbles.
  double wait_seconds = 0;
  double transfer_seconds = 0;          ///< Seconds in which resharded bytes arrived here.
  double exposed_transfer_seconds = 0;  ///< Part of them in which the device waited.
  std::uint64_t reshard_bytes = 0;      ///< Bytes sent from here to other meshes.
  /// Bytes sent from here within the mesh and for the global norm.
  std::uint64_t collective_bytes = 0;
  double egress_rate = 0;  ///< See EngineCounters::egress_rate.
  /// Times of all kinds of actions of its stages, in the order of their first occurrence.
  std::vector<ActionTime> action_times;
  std::vector<EdgeTime> edge_times;  ///< Times of the edges that end here.
  std::vector<TraceEvent> trace;
  static constexpr auto fields = weft::fields(
      &StepReport::losses, &StepReport::grad_norm, &StepReport::first_nonfinite_parameter,
      &StepReport::step_seconds, &StepReport::compute_seconds, &StepReport::wait_seconds,
      &StepReport::transfer_seconds, &StepReport::exposed_transfer_seconds,
      &StepReport::reshard_bytes, &StepReport::collective_bytes, &StepReport::egress_rate,
      &StepReport::action_times, &StepReport::edge_times, &StepReport::trace);
};

}  // namespace weft::mesh

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
  /// For the bias correction. Counts steps from 1, those whose update was skipped among them: it
  /// follows from the step alone, so a resumed run needs no other count. After skipped steps the
  /// correction is a little too small, and so are the first updates.
  std::int64_t number = 1;
  static constexpr auto fields =
      weft::fields(&OptimizerStep::learning_rate, &OptimizerStep::beta1, &OptimizerStep::beta2,
                   &OptimizerStep::epsilon, &OptimizerStep::weight_decay, &OptimizerStep::clip_norm,
                   &OptimizerStep::number);
};

/// The one message per device and step: run this program once.
struct StepRequest {
  std::string program;
  /// Counts every execution of any program, the same on all devices: names its transfers.
  std::uint64_t run = 0;
  std::uint64_t step = 0;  ///< Which batch to read.
  Split split = Split::kTrain;
  OptimizerStep optimizer;
  bool trace = false;
  static constexpr auto fields =
      weft::fields(&StepRequest::program, &StepRequest::run, &StepRequest::step,
                   &StepRequest::split, &StepRequest::optimizer, &StepRequest::trace);
};

/// Where a device stands, or stood when its last execution ended.
struct ProgramPosition {
  std::string program;  ///< Empty before the first execution.
  std::uint64_t run = 0;
  /// The number of instructions when it is done.
  std::uint64_t instruction = 0;
  /// The transfer that its device collectives stood at.
  std::optional<transfer::OperationKey> collective;
  static constexpr auto fields =
      weft::fields(&ProgramPosition::program, &ProgramPosition::run, &ProgramPosition::instruction,
                   &ProgramPosition::collective);
};

/// What one action of a stage took, on average over a step.
struct ActionTime {
  std::int32_t stage = 0;
  ActionKind kind = ActionKind::kForward;
  std::uint32_t count = 0;        ///< Actions of this kind in the step.
  double seconds = 0;             ///< Of computation, waits left out.
  double collective_seconds = 0;  ///< Standing still for transfers within the mesh.
  static constexpr auto fields =
      weft::fields(&ActionTime::stage, &ActionTime::kind, &ActionTime::count, &ActionTime::seconds,
                   &ActionTime::collective_seconds);
};

/// What one tensor of an edge between meshes took to come in, on average over a step.
struct EdgeTime {
  std::uint32_t op = 0;     ///< PlannedEdge::op.
  std::uint32_t count = 0;  ///< Tensors in the step.
  double seconds = 0;       ///< From the first byte to the last.
  static constexpr auto fields = weft::fields(&EdgeTime::op, &EdgeTime::count, &EdgeTime::seconds);
};

/// What a device has to say after a step.
struct StepReport {
  std::vector<float> losses;  ///< Per microbatch; empty where another device reports them.
  /// Of all gradients together, before clipping; equal on all devices. Where it is not finite, the
  /// update was skipped.
  double grad_norm = 0;
  /// The first parameter, in the graph's order, whose gradient is not finite; equal on all devices.
  std::optional<std::uint32_t> first_not_finite;
  double step_seconds = 0;
  double compute_seconds = 0;
  /// The device stood still, for whatever reason (bubbles included).
  double wait_seconds = 0;
  double transfer_seconds = 0;          ///< Bytes of resharding were arriving here.
  double exposed_transfer_seconds = 0;  ///< ... while the device stood still waiting for them.
  std::uint64_t reshard_bytes = 0;      ///< Sent from here to other meshes.
  /// Sent from here within the mesh and for the global norm.
  std::uint64_t collective_bytes = 0;
  double egress_rate = 0;  ///< See EngineCounters::egress_rate.
  /// Of all kinds of action of its stages, as they first occur in the program.
  std::vector<ActionTime> action_times;
  std::vector<EdgeTime> edge_times;  ///< Of the edges that end here.
  std::vector<TraceEvent> trace;
  static constexpr auto fields = weft::fields(
      &StepReport::losses, &StepReport::grad_norm, &StepReport::first_not_finite,
      &StepReport::step_seconds, &StepReport::compute_seconds, &StepReport::wait_seconds,
      &StepReport::transfer_seconds, &StepReport::exposed_transfer_seconds,
      &StepReport::reshard_bytes, &StepReport::collective_bytes, &StepReport::egress_rate,
      &StepReport::action_times, &StepReport::edge_times, &StepReport::trace);
};

}  // namespace weft::mesh

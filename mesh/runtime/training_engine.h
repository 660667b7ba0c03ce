#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "core/device/optimizer.h"
#include "core/graph/graph.h"
#include "core/trace/trace_event.h"
#include "mesh/runtime/step.h"
#include "mesh/runtime/step_result.h"

namespace weft::mesh {

/// Whatever carries out the steps of a training run: device actors on meshes, all devices of a plan
/// in one thread, or one device. A training loop drives it. One thread at a time, but for gather();
/// every call may throw what the devices threw, and the engine is of no use after that.
class TrainingEngine {
 public:
  virtual ~TrainingEngine() = default;

  /// The graph that is trained: names and shapes of the parameters.
  virtual const Graph& graph() const = 0;
  /// Runs a step of "train" or "validate" on all devices to its end. `request.run` is the engine's
  /// to fill in.
  virtual StepResult run(StepRequest request) = 0;

  /// Whether the state is copied, so that steps may go on while it is handed over.
  virtual bool copies() const { return false; }
  /// Copies parameters and moments as they are now: what gather() hands over from then on. Only
  /// where it copies(), and while no gather() runs.
  virtual void copy_state() {}
  /// Hands over every parameter with its moments, in pieces that are valid during the call. What
  /// `take` throws is thrown between two transfers: the engine can go on. Where the engine
  /// copies(), another thread may call it beside those that take steps, and it throws
  /// Error(kCancelled) soon after `stop` if it has to wait for devices.
  virtual void gather(const TakePiece& take, const std::stop_token& stop = {}) = 0;
  /// Goes on from that state, after `steps_done` steps.
  virtual void restore(const GivePiece& give, std::int64_t steps_done) = 0;

  /// What was traced since the last take, a trace per device.
  virtual std::vector<DeviceTrace> take_traces() = 0;
  /// Gives back the devices, with their memory, which others may want now. The last call.
  virtual void release() {}
};

}  // namespace weft::mesh

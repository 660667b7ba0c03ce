#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/device/optimizer.h"
#include "core/graph/graph.h"
#include "core/trace/trace_event.h"
#include "mesh/runtime/step.h"
#include "mesh/runtime/step_result.h"

namespace weft::mesh {

/// Engine that runs the steps of a training loop: device actors on meshes, all devices of a plan in
/// one thread, or one device. One thread at a time, except for gather(). Every call may throw
/// errors of the devices; then the engine can only be used again if recover() succeeds.
class TrainingEngine {
 public:
  virtual ~TrainingEngine() = default;

  /// Returns the graph being trained, with names and shapes of the parameters.
  virtual const Graph& graph() const = 0;
  /// Runs a step of "train" or "validate" on all devices to its end. The engine sets
  /// `request.execution_number`.
  virtual StepResult run(StepRequest request) = 0;

  /// Returns whether copy_state() copies the state, so that steps may continue
  /// during gather().
  virtual bool supports_copies() const { return false; }
  /// Copies parameters and moments as they are now, for later calls of gather(). Call only if
  /// supports_copies() is true and no gather() runs.
  virtual void copy_state() {}
  /// Passes every parameter with its moments to `take`, in pieces that are valid during the call.
  /// An exception of `take` leaves the engine usable. If supports_copies() is true, another thread
  /// may call gather() beside steps; it throws Error(kCancelled) soon after a stop request if it
  /// has to wait for devices.
  virtual void gather(const ReadStateSlice& take, const std::stop_token& stop = {}) = 0;
  /// Continues from the given state, after `steps_done` steps.
  virtual void restore(const WriteStateSlice& give, std::int64_t steps_done) = 0;

  /// Returns whether recover() can help: the error is a fault of processes, hosts or the network.
  /// Errors that programs report would only repeat.
  virtual bool recovers_from(const Error& /*error*/) const { return false; }
  /// Recovery that has happened. A value.
  struct Recovered {
    std::string cause = {};        ///< Example: "worker1 device 0 died: SIGKILL".
    std::string where = {};        ///< Hosts of new devices: "worker2"; empty if none.
    std::size_t restart = 0;       ///< Number of this restart.
    std::size_t max_restarts = 0;  ///< Number of restarts allowed.
    std::int64_t kept_step = 0;    ///< Steps done in the newest state that memory holds; 0: none.
  };
  /// Replaces dead processes and reconnects all. Then set the state with restore(),
  /// restore_snapshot() or reset_parameters(). Throws if recovery is impossible or has been done
  /// too often.
  virtual Recovered recover(const Error& why) { throw Error(why); }
  /// Call after every step. May keep a copy of the state in the memory of other hosts.
  virtual void snapshot_state(std::int64_t /*steps_done*/) {}
  /// Returns the steps done in the newest state that devices kept for the previous driver, from
  /// which restore_snapshot() continues; 0: none.
  virtual std::int64_t adopted_step() const { return 0; }
  /// Continues from the state of Recovered::kept_step or adopted_step().
  virtual void restore_snapshot() {}
  /// Continues from the initial parameters.
  virtual void reset_parameters() {}

  /// Returns the traces since the last call, one per device.
  virtual std::vector<DeviceTrace> take_traces() = 0;
  /// Releases the devices and their memory. Must be the last call.
  virtual void release() {}
};

}  // namespace weft::mesh

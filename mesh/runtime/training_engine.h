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

/// Whatever carries out the steps of a training run: device actors on meshes, all devices of a plan
/// in one thread, or one device. A training loop drives it. One thread at a time, but for gather();
/// every call may throw what the devices threw, and the engine is of no use after that unless
/// recover() succeeds.
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

  /// Whether what a call threw is a fault of processes, hosts or the network, after which others
  /// may go on; what programs report themselves would only happen again.
  virtual bool recovers_from(const Error& /*error*/) const { return false; }
  /// What has happened, and is mended. A value.
  struct Recovered {
    std::string cause = {};      ///< "worker1 device 0 died: SIGKILL"
    std::string where = {};      ///< Of what is new: "worker2"; empty where nothing is.
    std::size_t restart = 0;     ///< Which one,
    std::size_t most = 0;        ///< of how many.
    std::int64_t kept_step = 0;  ///< Steps done in the newest state that memory holds; 0: none.
  };
  /// Others take the place of what has died, and all are connected anew. Then the state is to be
  /// set by restore(), restore_kept() or begin_anew(). Throws where that cannot be, or has been
  /// done too often.
  virtual Recovered recover(const Error& why) { throw Error(why); }
  /// After every step: may keep a copy of the state in the memory of others.
  virtual void keep_state(std::int64_t /*steps_done*/) {}
  /// Steps done in the newest state that devices have kept for the process that drove them before
  /// this one, and restore_kept() goes on from; 0: none.
  virtual std::int64_t inherited_step() const { return 0; }
  /// Goes on from Recovered::kept_step.
  virtual void restore_kept() {}
  /// Goes on from the initial parameters.
  virtual void begin_anew() {}

  /// What was traced since the last take, a trace per device.
  virtual std::vector<DeviceTrace> take_traces() = 0;
  /// Gives back the devices, with their memory, which others may want now. The last call.
  virtual void release() {}
};

}  // namespace weft::mesh

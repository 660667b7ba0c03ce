#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/run_files/checkpoint.h"
#include "core/device/optimizer.h"
#include "core/trace/trace_event.h"

namespace weft::apps {

/// What to do in one training step. A value.
struct StepOrder {
  std::int64_t step = 1;  ///< Counts from 1; decides which batch is read.
  AdamW optimizer = {};   ///< Its `step` and `gradient_scale` are the engine's to set.
  double clip_norm = 0;   ///< 0: no clipping.
  bool trace = false;
};

/// What one training step came to. A value.
struct StepOutcome {
  double loss = 0;              ///< Nats, mean over the batch.
  double grad_norm = 0;         ///< Not finite: the update was skipped, and nothing has changed.
  std::string not_finite = {};  ///< The first parameter whose gradient is not finite.
  double transfer_seconds = 0;  ///< See StepMetrics.
  double exposed_transfer_seconds = 0;
  std::uint64_t resharded_bytes = 0;
  std::string note = {};  ///< For the user; mostly empty.
};

/// Whatever carries out the steps: device actors on meshes, or one device in this process. The
/// training loop drives it. One thread at a time; every call may throw what the devices threw, and
/// the engine is of no use after that.
class TrainingEngine {
 public:
  virtual ~TrainingEngine() = default;

  virtual StepOutcome step(const StepOrder& order) = 0;
  /// The mean loss of `batches` fixed batches of the held-out part.
  virtual double validate(std::int64_t batches) = 0;
  /// In the order of the graph.
  virtual ParameterList parameters() const = 0;
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

}  // namespace weft::apps

#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/device/device.h"
#include "mesh/program/program.h"
#include "mesh/runtime/batch_source.h"
#include "mesh/runtime/step.h"
#include "mesh/runtime/storage.h"
#include "transfer/execute/transfer_engine.h"

namespace weft::mesh {

/// What an interpreter works with; owned by the device actor.
struct Resources {
  Stream& stream;
  Storage& storage;
  transfer::TransferEngine& engine;
  BatchSource& batches;
  const Clock& clock;
  std::uint64_t epoch = 0;
  Nanoseconds transfer_timeout = std::chrono::minutes(5);
};

/// Runs one execution of a program: a state machine that never blocks.
///
/// advance() goes on until the program is done or stands at a Wait whose transfer is still under way; then somebody calls it
/// again after `wake` was called. Owner's thread only, except that `wake` is called on the transfer thread. Used once; must not
/// be destroyed while transfers are under way.
///
///   begin -> running -> blocked -> running -> ... -> done
///                          `-> failed (advance throws; cancel, then wait for quiescent())
class Interpreter final {
 public:
  enum class Progress : std::uint8_t { kBlocked, kDone };

  /// `program` and `resources` must outlive the interpreter.
  Interpreter(const Program& program, StepRequest request, Resources& resources, std::function<void()> wake);
  ~Interpreter();

  /// Throws the Error of a transfer that failed, or of an op.
  Progress advance();
  /// "wait for 'h1.out front->back' of microbatch 3, for 1.2 s, in 1F3 (instruction 412 of 900)".
  std::string position() const;
  /// The instruction it stands at; their number when it is done.
  std::size_t instruction() const { return next_; }
  /// No transfer of this execution is under way: its buffers may be reused.
  bool quiescent() const;
  /// Blocks until quiescent(), at most so long; whether it is. Only with an engine that has its own thread.
  bool wait_quiescent(Nanoseconds limit) const;
  /// The report of a done execution.
  StepReport finish();

 private:
  /// Filled on the transfer thread, emptied on the owner's.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable idle;                                             // under_way has become 0
    std::vector<std::pair<std::uint32_t, transfer::TransferReport>> reports;  // guarded by mutex
    std::uint64_t under_way = 0;                                              // guarded by mutex
  };
  enum class Handle : std::uint8_t { kIdle, kStarted, kDone };

  void execute(const Begin& begin);
  void execute(const Run& run);
  void execute(const Read& read);
  void execute(const Start& start);
  void execute(const Accumulate& accumulate);
  void execute(const Norm& norm);
  void execute(const Update& update);
  bool execute(const Wait& wait);
  void take_reports();
  void close_compute_span(TimePoint now);
  /// No action from here on, or none yet.
  void leave_actions(TimePoint now);
  void count_arrival(const Transfer& transfer, const transfer::TransferReport& report);

  const Program& program_;
  const StepRequest request_;
  Resources& resources_;
  const std::function<void()> wake_;
  /// Shared with callbacks on the transfer thread, the last of which may end after the interpreter has seen it.
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::vector<TensorRef> tensors_;
  std::vector<Handle> handles_;
  std::vector<std::uint32_t> transfer_of_handle_;
  std::vector<int> microbatch_of_handle_;
  std::size_t next_ = 0;
  int microbatches_ = 1;
  std::optional<Error> failure_;

  std::optional<Begin> action_;
  std::size_t action_time_ = 0;  ///< Of action_, in report_.action_times, which holds sums until finish().
  TimePoint begun_;
  std::optional<TimePoint> computing_since_;
  std::optional<TimePoint> waiting_since_;
  std::vector<std::pair<TimePoint, TimePoint>> arrivals_;  ///< When resharded data was on its way to this device.
  std::vector<std::pair<TimePoint, TimePoint>> waits_;     ///< When the device stood still for resharded data.
  StepReport report_;
};

}  // namespace weft::mesh

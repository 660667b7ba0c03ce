#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/device/device.h"
#include "mesh/program/program.h"
#include "mesh/runtime/batch_source.h"
#include "mesh/runtime/collective_stream.h"
#include "mesh/runtime/copy_streams.h"
#include "mesh/runtime/progress_board.h"
#include "mesh/runtime/recorded_segments.h"
#include "mesh/runtime/step.h"
#include "mesh/runtime/step_timeline.h"
#include "mesh/runtime/storage.h"
#include "transfer/execute/transfer_engine.h"

namespace weft::mesh {

class DeviceQueue;
class TransferExecutor;

/// Resources that an interpreter uses, owned by the device actor.
struct Resources {
  Stream& stream;       ///< Compute stream.
  CopyStreams& copies;  ///< Used by this execution alone.
  Storage& storage;
  transfer::TransferEngine& engine;
  BatchSource& batches;
  const Clock& clock;
  std::uint64_t epoch = 0;
  /// Queue with the communicators that programs need. Null if the device has no collective library.
  CollectiveStream* library = nullptr;
  ProgressBoard* board = nullptr;  ///< Receives the position; null: not reported.
  bool low_priority = false;       ///< Transfers give way to those of other programs.
};

/// Interpreter of one execution of a program: a state machine that never blocks.
///
/// advance() runs until the program is done or must wait, and is called again after `wake`. Owner's
/// thread only; `wake` is called on the transfer thread and by event watches. Used once. Must not
/// be destroyed while transfers or copies are running.
///
///   begin -> running -> blocked -> running -> ... -> done
///                          `-> failed (advance throws; cancel, then wait for quiescent())
///
/// Work is queued on the device at most two actions ahead, and its streams wait for each other.
/// advance() returns kBlocked at a Wait until the bytes are on the host, at the third action ahead,
/// at the gradient norm, and at the end. A CPU finishes work when it is queued, so only a Wait for
/// a running transfer blocks. Transfers by the collective library never block; while some are
/// running, advance() must be called from time to time, since a peer's death causes no `wake`.
class Interpreter final {
 public:
  enum class Progress : std::uint8_t { kBlocked, kDone };

  /// `program` and `resources` must outlive the interpreter.
  Interpreter(const Program& program, StepRequest request, Resources& resources,
              std::function<void()> wake);
  ~Interpreter();

  /// Continues the execution. Throws the Error of a failed transfer or op.
  Progress advance();
  /// Returns text such as "wait for 'h1.out front->back' of microbatch 3, for 1.2 s, in 1F3
  /// (instruction 412 of 900)".
  std::string position() const;
  /// Index of the current instruction; the number of instructions when done.
  std::size_t instruction() const { return next_; }
  /// Returns whether no transfer or copy of this execution is running, so that its buffers may be
  /// reused.
  bool quiescent() const;
  /// Returns whether queued device work is pending. `wake` is called when it is done.
  bool device_busy() const;
  /// Returns whether device collectives are running: then call advance() again within a second or
  /// so, even without `wake`.
  bool wants_polling() const;
  /// Cancels the running transfers, after this execution or a peer has failed. quiescent() becomes
  /// true by itself.
  void cancel(const Error& why);
  /// Blocks until quiescent(), for at most `limit`. Returns whether it is. Needs an engine with its
  /// own thread.
  bool wait_quiescent(Nanoseconds limit) const;
  /// Returns the report of a completed execution.
  StepReport finish();

 private:
  Progress run_until_blocked();
  void publish_position() const;
  /// Ends the program: kBlocked until all device work is done.
  Progress finish_device_work();
  // Each returns false if it must be called again after `wake`.
  bool execute(const BeginAction& begin);
  bool execute(const EndActions& end);
  bool execute(const Run& run);
  bool execute(const Read& read);
  bool execute(const Start& start);
  bool execute(const Wait& wait);
  bool execute(const Accumulate& accumulate);
  bool execute(const Norm& norm);
  bool execute(const Update& update);
  /// Queues the recordable segment that begins at the next instruction. Returns false if there is
  /// none.
  bool queue_segment();
  /// Runs callbacks from other threads. Throws the failure, if there is one.
  void drain_events();
  TransferExecutor& executor_of(const Transfer& transfer) const {
    return *executors_[transfer.device_work.index()];
  }
  /// Returns the transfer at which the device is.
  std::optional<transfer::OperationKey> current_transfer() const;
  static std::span<std::byte> bytes(const TensorRef& tensor) {
    return {tensor.data, tensor.type.bytes()};
  }

  const Program& program_;
  const StepRequest request_;
  Resources& resources_;
  std::vector<TensorRef> tensors_;
  std::vector<const Start*> start_of_handle_;
  std::size_t next_ = 0;
  int microbatches_ = 1;
  bool ended_ = false;  ///< True once all instructions are executed or queued.

  TimePoint begun_;
  std::optional<TimePoint> waiting_since_;
  bool worked_ = false;  ///< True if the device got work since the beginning or the last Wait.
  StepTimeline timeline_;
  double grad_norm_ = 0;
  std::optional<std::uint32_t> first_not_finite_;  ///< See StepReport.
  std::unique_ptr<DeviceQueue> device_;
  RecordedSegments::Graphs& graphs_;
  /// Executors by alternative of Transfer::device_work; null if the program has no such transfer.
  std::array<std::unique_ptr<TransferExecutor>,
             std::variant_size_v<decltype(Transfer::device_work)>>
      executors_;
};

}  // namespace weft::mesh

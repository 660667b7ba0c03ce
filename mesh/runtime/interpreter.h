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
#include "mesh/runtime/copy_streams.h"
#include "mesh/runtime/library_queue.h"
#include "mesh/runtime/progress_board.h"
#include "mesh/runtime/step.h"
#include "mesh/runtime/step_graphs.h"
#include "mesh/runtime/step_timeline.h"
#include "mesh/runtime/storage.h"
#include "transfer/execute/transfer_engine.h"

namespace weft::mesh {

class DeviceQueue;
class TransferExecutor;

/// What an interpreter works with; owned by the device actor.
struct Resources {
  Stream& stream;       ///< For computing.
  CopyStreams& copies;  ///< Of this execution alone while it lasts.
  Storage& storage;
  transfer::TransferEngine& engine;
  BatchSource& batches;
  const Clock& clock;
  std::uint64_t epoch = 0;
  /// Of a device whose library reaches others, with the communicators that programs need; null for
  /// the rest.
  LibraryQueue* library = nullptr;
  ProgressBoard* board = nullptr;  ///< Where it leaves word of what it is at; null: nobody asks.
  bool stands_back = false;        ///< Its transfers let those of other programs go first.
};

/// Runs one execution of a program: a state machine that never blocks.
///
/// advance() goes on until the program is done or stands at something that is still under way; then
/// somebody calls it again after `wake` was called. Owner's thread only, except that `wake` is
/// called on the transfer thread and by event watches. Used once; must not be destroyed while
/// transfers or copies are under way.
///
///   begin -> running -> blocked -> running -> ... -> done
///                          `-> failed (advance throws; cancel, then wait for quiescent())
///
/// The device is given its work ahead of time, by at most two actions, and its streams wait for
/// each other: advance() blocks at a Wait until the bytes are on the host, at the third action
/// ahead, at the norm of the gradients, and at the end. A CPU is never behind: its work is done
/// when it is given, so advance() blocks at a Wait whose transfer is under way, and nowhere else.
/// Transfers by the library of the GPUs block it nowhere; while some are under way it wants to be
/// called from time to time, as nobody wakes for a peer that has died.
class Interpreter final {
 public:
  enum class Progress : std::uint8_t { kBlocked, kDone };

  /// `program` and `resources` must outlive the interpreter.
  Interpreter(const Program& program, StepRequest request, Resources& resources,
              std::function<void()> wake);
  ~Interpreter();

  /// Throws the Error of a transfer that failed, or of an op.
  Progress advance();
  /// "wait for 'h1.out front->back' of microbatch 3, for 1.2 s, in 1F3 (instruction 412 of 900)".
  std::string position() const;
  /// The instruction it stands at; their number when it is done.
  std::size_t instruction() const { return next_; }
  /// No transfer of this execution is under way, and no copy: its buffers may be reused.
  bool quiescent() const;
  /// The device is at work, and will wake whoever waits.
  bool device_busy() const;
  /// Device collectives are under way: advance() is to be called again within a second or so, woken
  /// or not.
  bool wants_polling() const;
  /// Ends the transfers under way: of an execution that failed, or whose peers did. quiescent()
  /// follows by itself.
  void cancel(const Error& why);
  /// Blocks until quiescent(), at most so long; whether it is. Only with an engine that has its own
  /// thread.
  bool wait_quiescent(Nanoseconds limit) const;
  /// The report of a done execution.
  StepReport finish();

 private:
  Progress go_on();
  void leave_word() const;
  /// The end of the program: until the device has come there.
  Progress settle();
  // False: not yet; call it again after a wake.
  bool execute(const Begin& begin);
  bool execute(const Run& run);
  bool execute(const Read& read);
  bool execute(const Start& start);
  bool execute(const Wait& wait);
  bool execute(const Accumulate& accumulate);
  bool execute(const Norm& norm);
  bool execute(const Update& update);
  /// Queues all of the segment that begins at the next instruction, if one does; whether it did.
  bool queue_segment();
  /// Takes what other threads have told; throws the failure, if there is one.
  void take_news();
  TransferExecutor& executor_of(const Transfer& transfer) const {
    return *executors_[transfer.work.index()];
  }
  /// The transfer that the device stands at.
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
  bool ended_ = false;  ///< All instructions are executed, or queued.

  TimePoint begun_;
  std::optional<TimePoint> waiting_since_;
  bool worked_ = false;  ///< Since it began, or last went on after a Wait.
  StepTimeline timeline_;
  double grad_norm_ = 0;
  std::optional<std::uint32_t> first_not_finite_;  ///< See StepReport.
  std::unique_ptr<DeviceQueue> device_;
  StepGraphs::Graphs& graphs_;
  /// By alternative of Transfer::work; null where the program has none of it.
  std::array<std::unique_ptr<TransferExecutor>, std::variant_size_v<decltype(Transfer::work)>>
      executors_;
};

}  // namespace weft::mesh

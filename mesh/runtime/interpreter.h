#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/device/device.h"
#include "mesh/program/program.h"
#include "mesh/runtime/batch_source.h"
#include "mesh/runtime/collective_engine.h"
#include "mesh/runtime/copy_engine.h"
#include "mesh/runtime/progress_board.h"
#include "mesh/runtime/step.h"
#include "mesh/runtime/step_graphs.h"
#include "mesh/runtime/step_timeline.h"
#include "mesh/runtime/storage.h"
#include "transfer/execute/transfer_engine.h"

namespace weft::mesh {

class CollectiveStep;
class AsyncExecution;
struct HostBuffers;
struct Inbox;
struct Notice;

/// What an interpreter works with; owned by the device actor.
struct Resources {
  Stream& stream;  ///< For computing.
  Storage& storage;
  transfer::TransferEngine& engine;
  BatchSource& batches;
  const Clock& clock;
  std::uint64_t epoch = 0;
  /// Of a device that runs by itself in memory that the host cannot touch; null for others.
  CopyEngine* copies = nullptr;
  /// Of one whose library reaches other devices, with the communicators that programs need; null
  /// for others.
  CollectiveEngine* collectives = nullptr;
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
/// A device whose memory is the host's computes inside its calls; advance() blocks at a Wait whose
/// transfer is under way, and nowhere else. Another device is given its work ahead of time, by at
/// most two actions, and its streams wait for each other: advance() then blocks at a Wait until the
/// bytes are on the host, at the third action ahead, at the norm of the gradients, and at the end.
/// Transfers by device collectives block it nowhere; while some are under way it wants to be called
/// from time to time, as nobody wakes for a peer that has died.
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
  /// The transfer that the device's collectives stand at.
  std::optional<transfer::OperationKey> current_collective() const;
  /// Blocks until quiescent(), at most so long; whether it is. Only with an engine that has its own
  /// thread.
  bool wait_quiescent(Nanoseconds limit) const;
  /// The report of a done execution.
  StepReport finish();

 private:
  enum class Handle : std::uint8_t { kIdle, kStarted, kDone };

  Progress go_on();
  void leave_word() const;
  /// The end of a program on a device that runs by itself.
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
  void reach(const Mark& mark);
  void begin_transfer(std::uint32_t handle, const HostBuffers& buffers);
  void take_messages();
  void take_notice(const Notice& notice);
  bool await_collective(const Wait& wait);
  void throw_failure() const;
  bool in_device_memory(std::int32_t buffer) const;
  static std::span<std::byte> bytes(const TensorRef& tensor) {
    return {tensor.data, tensor.type.bytes()};
  }

  const Program& program_;
  const StepRequest request_;
  Resources& resources_;
  const std::function<void()> wake_;
  /// Shared with callbacks on other threads, the last of which may end after the interpreter has
  /// seen it.
  std::shared_ptr<Inbox> inbox_;
  std::vector<TensorRef> tensors_;
  std::vector<Handle> handles_;
  std::vector<const Start*> start_of_handle_;
  std::size_t next_ = 0;
  int microbatches_ = 1;
  bool ended_ = false;  ///< All instructions are executed, or queued.
  std::optional<Error> failure_;

  TimePoint begun_;
  std::optional<TimePoint> waiting_since_;
  StepTimeline timeline_;
  double grad_norm_ = 0;
  std::optional<std::uint32_t> first_not_finite_;  ///< See StepReport.
  /// Null for a device that computes inside its calls.
  std::unique_ptr<AsyncExecution> device_;
  StepGraphs::Graphs* graphs_ = nullptr;  ///< Of a device that runs by itself.
  /// Null for a program without device collectives.
  std::unique_ptr<CollectiveStep> collectives_;
};

}  // namespace weft::mesh

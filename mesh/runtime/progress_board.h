#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/codec/codec.h"
#include "mesh/program/program.h"
#include "mesh/runtime/step.h"
#include "transfer/execute/transfer_engine.h"

namespace weft::mesh {

/// What a device is at, and what it has done so far: a beat of its progress. A value; travels.
struct DeviceProgress {
  ProgramPosition position;
  /// Instructions and handlers, and what its device has told of, since its process began.
  std::uint64_t finished = 0;
  std::uint64_t moved_bytes = 0;  ///< By its transfers, in and out, in whole chunks.
  /// That have come over the network, also of chunks that are not whole yet, and as signs of life.
  /// 0 where the wire cannot tell.
  std::uint64_t network_bytes = 0;
  std::uint64_t arriving = 0;  ///< Chunks on their way into memory here.
  /// The device thread is inside an instruction or a handler, or the device works by itself (an
  /// event is pending): something that takes its time, and that nobody else can help along.
  bool inside = false;
  double inside_seconds = 0;
  std::string handler;  ///< That it is inside of; empty: an instruction.
  static constexpr auto fields = weft::fields(
      &DeviceProgress::position, &DeviceProgress::finished, &DeviceProgress::moved_bytes,
      &DeviceProgress::network_bytes, &DeviceProgress::arriving, &DeviceProgress::inside,
      &DeviceProgress::inside_seconds, &DeviceProgress::handler);
};

/// Where a device thread leaves word of what it is at, for its I/O thread to report while it
/// computes or is stuck. Any thread.
class ProgressBoard final {
 public:
  void begin(std::shared_ptr<const Program> program, std::uint64_t run);
  /// The device thread goes into this instruction; again, if it has been called for it and could
  /// not go on.
  void enter(std::size_t instruction, TimePoint now);
  /// An instruction is done.
  void finished();
  /// The device, which runs by itself, has come further.
  void device_came_further(TimePoint now);
  /// The device thread waits. `works`: its device is at work.
  void leave(std::size_t instruction, std::optional<transfer::OperationKey> collective, bool works,
             TimePoint now);
  void enter_handler(const char* name, TimePoint now);
  void leave_handler();
  /// Whose bytes count.
  void count(std::weak_ptr<const transfer::TransferEngine> engine);

  DeviceProgress read(TimePoint now) const;
  /// The program that was begun last, and for how long the device thread has waited at its
  /// instruction; null before that.
  struct Standing {
    std::shared_ptr<const Program> program;
    double waited_seconds = 0;
  };
  Standing standing(TimePoint now) const;

 private:
  mutable std::mutex mutex_;
  DeviceProgress at_;                       // guarded by mutex_
  TimePoint since_;                         // guarded by mutex_
  std::shared_ptr<const Program> program_;  // guarded by mutex_; shared with the engine
  std::optional<std::size_t> waits_at_;     // guarded by mutex_: the instruction
  TimePoint waits_since_;                   // guarded by mutex_
  std::weak_ptr<const transfer::TransferEngine> engine_;  // guarded by mutex_
};

/// The device thread is inside a handler, which is not a program.
class InHandler final {
 public:
  InHandler(ProgressBoard& board, const char* name) : board_(board) {
    board_.enter_handler(name, SteadyClock().now());
  }
  ~InHandler() { board_.leave_handler(); }
  InHandler(const InHandler&) = delete;
  InHandler& operator=(const InHandler&) = delete;

 private:
  ProgressBoard& board_;
};

}  // namespace weft::mesh

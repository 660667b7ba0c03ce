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

/// Position of a device and what it has done so far. A value; sent over the network.
struct DeviceProgress {
  ProgramPosition position;
  /// Instructions, handlers and device events completed since the process began.
  std::uint64_t finished = 0;
  std::uint64_t moved_bytes = 0;  ///< Bytes moved by its transfers, in and out, in whole chunks.
  /// Bytes received from the network, including incomplete chunks and keep-alive messages. 0 if the
  /// wire cannot tell.
  std::uint64_t network_bytes = 0;
  std::uint64_t arriving = 0;  ///< Chunks being received.
  /// True if the device thread is inside an instruction or a handler, or the device works
  /// asynchronously. Such work takes its time, and no other device can speed it up.
  bool inside = false;
  double inside_seconds = 0;
  std::string handler;  ///< Handler that it is inside of; empty: an instruction.
  static constexpr auto fields = weft::fields(
      &DeviceProgress::position, &DeviceProgress::finished, &DeviceProgress::moved_bytes,
      &DeviceProgress::network_bytes, &DeviceProgress::arriving, &DeviceProgress::inside,
      &DeviceProgress::inside_seconds, &DeviceProgress::handler);
};

/// Board on which a device thread publishes its position, so that the I/O thread can report it
/// while the device thread computes or is stuck. Any thread.
class ProgressBoard final {
 public:
  void begin(std::shared_ptr<const Program> program, std::uint64_t run);
  /// Records that the device thread enters this instruction. May repeat if the instruction could
  /// not complete.
  void enter(std::size_t instruction, TimePoint now);
  /// Records that an instruction is done.
  void report_finished();
  /// Records progress of an asynchronous device.
  void device_came_further(TimePoint now);
  /// Records that the device thread waits. `works`: true if its device is working.
  void report_blocked(std::size_t instruction, std::optional<transfer::OperationKey> collective,
                      bool works, TimePoint now);
  void enter_handler(const char* name, TimePoint now);
  void leave_handler();
  /// Sets the engine whose bytes are counted.
  void set_engine(std::weak_ptr<const transfer::TransferEngine> engine);

  DeviceProgress read(TimePoint now) const;
  /// Program that was begun last, and the time for which the device thread has waited at its
  /// instruction. Null before the first program.
  struct WaitState {
    std::shared_ptr<const Program> program;
    double waited_seconds = 0;
  };
  WaitState wait_state(TimePoint now) const;

 private:
  mutable std::mutex mutex_;
  DeviceProgress at_;                       // guarded by mutex_
  TimePoint since_;                         // guarded by mutex_
  std::shared_ptr<const Program> program_;  // guarded by mutex_; shared with the engine
  std::optional<std::size_t> waits_at_;     // guarded by mutex_: the instruction
  TimePoint waits_since_;                   // guarded by mutex_
  std::weak_ptr<const transfer::TransferEngine> engine_;  // guarded by mutex_
};

/// Guard that marks the device thread as inside a handler, outside of programs.
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

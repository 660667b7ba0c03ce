#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "transfer/nccl/device_operations.h"

namespace weft::transfer {

// Steps of DeviceOperations, with addresses instead of buffers.

struct DeviceCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t run_bytes = 0;
  std::span<const StridedCopy::Dimension> outer;  ///< Outer dimensions, outermost first.
};

struct DeviceCall {
  CallKind kind = CallKind::kBroadcast;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  int peer = 0;
  std::uint64_t count = 0;
  const std::byte* from = nullptr;  ///< Null if the CollectiveCall has no source.
  std::byte* to = nullptr;
};

struct DeviceSum {
  DType dtype = DType::kF32;
  std::uint64_t count = 0;
  std::span<const std::byte* const> terms;
  std::byte* to = nullptr;
};

/// Rank of a communicator.
///
/// One thread at a time, the one that uses the device. Only abort() and the destructor block; other
/// long operations leave the communicator busy. While it is busy, call only poll(), stop(), abort()
/// and the destructor.
class DeviceCommunicator {
 public:
  enum class State : std::uint8_t { kBusy, kReady };

  /// Aborts, unless finalize() has completed.
  virtual ~DeviceCommunicator() = default;
  /// Returns kReady once the creation, the last calls (on their stream), stop() or finalize() have
  /// completed. Throws the Error that broke the communicator.
  virtual State poll() = 0;
  /// Enqueues calls on a stream as one group. All members enqueue the same collective calls in the
  /// same order. Sends match the receives of their peer, in order. The first use of a communicator
  /// may stay busy until the other members take part.
  virtual void enqueue(std::span<const DeviceCall> calls, weft::Stream& stream) = 0;
  /// Begins an orderly end, together with all members, after all work is done. Once it is kReady,
  /// the communicator may be destroyed.
  virtual void finalize() = 0;
  /// Asks operations in progress on the device to end, including kernels that wait for a peer.
  /// Accepts no more calls. If a stream holds work of several communicators, stop all of them
  /// before aborting one.
  virtual void stop() noexcept = 0;
  /// Stops, waits until the device no longer uses the communicator, and frees it. Never waits for
  /// other members.
  virtual void abort() noexcept = 0;
  /// Creates a communicator of the ranks that are not excluded, renumbered without gaps. Call it on
  /// each of these ranks, after stop() is done. This communicator must live until the new one is
  /// ready; it can then only be destroyed.
  virtual std::unique_ptr<DeviceCommunicator> shrink(std::span<const int> excluded_ranks) = 0;
};

/// Collective operations of a GPU vendor's library (NCCL); tests have their own. The Device owns
/// memory and streams. One thread at a time, as for DeviceCommunicator; make_id(): any thread.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  /// Returns the library and its version, such as "NCCL 2.28.9". Equal on devices that can
  /// communicate.
  virtual std::string description() const = 0;
  /// Creates the id that the members of one new communicator must share. The calling process must
  /// live until the communicator is ready everywhere, so rank 0's process calls it.
  virtual std::vector<std::byte> make_id() = 0;
  /// Begins to create rank `rank` of `size`. Busy until all ranks take part. `name` is for messages
  /// and traces.
  virtual std::unique_ptr<DeviceCommunicator> create(std::span<const std::byte> id, int size,
                                                     int rank, const std::string& name) = 0;
  /// Copies disjoint bytes within the device.
  virtual void copy(std::span<const DeviceCopy> copies, weft::Stream& stream) = 0;
  /// Adds terms in their order; see SumStep.
  virtual void sum(const DeviceSum& sum, weft::Stream& stream) = 0;
};

}  // namespace weft::transfer

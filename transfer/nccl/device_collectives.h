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

// The steps of DeviceOperations with addresses in place of buffers.

struct DeviceCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t run_bytes = 0;
  std::span<const StridedCopy::Dimension> outer;  ///< Outermost first.
};

struct DeviceCall {
  CallKind kind = CallKind::kBroadcast;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  int peer = 0;
  std::uint64_t count = 0;
  const std::byte* from = nullptr;  ///< Null where CollectiveCall has none.
  std::byte* to = nullptr;
};

struct DeviceSum {
  DType dtype = DType::kF32;
  std::uint64_t count = 0;
  std::span<const std::byte* const> terms;
  std::byte* to = nullptr;
};

/// A rank of a communicator.
///
/// One thread at a time, the one that uses the device. Nothing blocks but abort() and the
/// destructor: what takes time leaves it busy. While it is busy only poll(), stop(), abort() and
/// the destructor may be called.
class DeviceCommunicator {
 public:
  enum class State : std::uint8_t { kBusy, kReady };

  /// Aborts, unless finalize() came to its end.
  virtual ~DeviceCommunicator() = default;
  /// kReady: created, or the last calls are on their stream, or what stop() or finalize() began is
  /// done. Throws the Error that broke the communicator.
  virtual State poll() = 0;
  /// Puts calls on a stream as one group. All members put the same collective calls on their
  /// streams in the same order; a send meets the receive of its peer, in order. The first use of a
  /// communicator may stay busy until the others have come.
  virtual void enqueue(std::span<const DeviceCall> calls, weft::Stream& stream) = 0;
  /// Begins an orderly end, together with all members, after all work is done. kReady then means
  /// that it may be destroyed.
  virtual void finalize() = 0;
  /// Asks what is under way on the device to end, kernels that wait for a peer included; no more
  /// calls. Where a stream holds work of several communicators, all are stopped before one is
  /// aborted.
  virtual void stop() noexcept = 0;
  /// Stops, waits until the device has let go, and frees what there is. Never waits for other
  /// members.
  virtual void abort() noexcept = 0;
  /// After stop() is done: a communicator of the ranks that are not excluded, which close up; every
  /// one of them calls it. This one must live until the new one is ready, and can then only be
  /// destroyed.
  virtual std::unique_ptr<DeviceCommunicator> shrink(std::span<const int> excluded_ranks) = 0;
};

/// The collective operations of one GPU's maker (NCCL); a test has its own. The device's memory and
/// streams are the Device's. One thread at a time, as DeviceCommunicator; make_id(): any thread.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  /// "NCCL 2.28.9": equal on devices that can talk to each other.
  virtual std::string description() const = 0;
  /// What the members of a new communicator must share; good for one. The process that makes it
  /// must live until the communicator is ready everywhere, so rank 0's makes it.
  virtual std::vector<std::byte> make_id() = 0;
  /// Begins to create rank `rank` of `size`; busy until all ranks have come. `name` is for messages
  /// and traces.
  virtual std::unique_ptr<DeviceCommunicator> create(std::span<const std::byte> id, int size,
                                                     int rank, const std::string& name) = 0;
  /// Copies within the device, of disjoint bytes.
  virtual void copy(std::span<const DeviceCopy> copies, weft::Stream& stream) = 0;
  /// Adds terms in their order; see SumStep.
  virtual void sum(const DeviceSum& sum, weft::Stream& stream) = 0;
};

}  // namespace weft::transfer

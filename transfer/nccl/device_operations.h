#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/tensor/dtype.h"
#include "transfer/flow/device_part.h"
#include "transfer/nccl/communicator_group.h"

namespace weft::transfer {

/// Buffer of a transfer on a device: one of the caller's buffers, or staging memory of the queue.
enum class BufferKind : std::uint8_t { kSource, kDestination, kStaging };

/// Position `offset` in the source or destination of a tensor, or in the staging memory.
struct BufferPlace {
  BufferKind kind = BufferKind::kStaging;
  std::uint32_t tensor = 0;
  std::uint64_t offset = 0;

  friend bool operator==(const BufferPlace&, const BufferPlace&) = default;
  static constexpr auto fields =
      weft::fields(&BufferPlace::kind, &BufferPlace::tensor, &BufferPlace::offset);
};

/// Copy of boxes of bytes between two places of one device: runs of `run_bytes`, repeated over
/// `outer` (outermost first). Example: two rows of 8 bytes, 32 apart, to contiguous memory have
/// run_bytes 8 and outer {{2, 32, 8}}.
struct StridedCopy {
  struct Dimension {
    std::uint64_t count = 0;
    std::uint64_t from_stride = 0;  ///< Stride in bytes.
    std::uint64_t to_stride = 0;
    friend bool operator==(const Dimension&, const Dimension&) = default;
    static constexpr auto fields =
        weft::fields(&Dimension::count, &Dimension::from_stride, &Dimension::to_stride);
  };
  BufferPlace from;
  BufferPlace to;
  std::uint64_t run_bytes = 0;
  std::vector<Dimension> outer;

  std::uint64_t bytes() const;
  friend bool operator==(const StridedCopy&, const StridedCopy&) = default;
  static constexpr auto fields = weft::fields(&StridedCopy::from, &StridedCopy::to,
                                              &StridedCopy::run_bytes, &StridedCopy::outer);
};

enum class CallKind : std::uint8_t {
  kBroadcast,
  kSend,
  kReceive,
  kAllReduce,
  kReduceScatter,
  kAllGather
};
/// Returns the name of a kind, such as "broadcast" or "send".
std::string_view to_string(CallKind kind);

/// Library call of one device in one round. As in NCCL, `count` is the elements of this device's
/// contribution: a reduce-scatter reads size * count elements, and an all-gather writes size *
/// count.
struct CollectiveCall {
  CallKind kind = CallKind::kBroadcast;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  /// Rank in the group: the root of a broadcast, the receiver of a send, the sender of a receive.
  std::uint32_t peer = 0;
  std::uint64_t count = 0;
  BufferPlace from;  ///< Unused by a receive, and by a broadcast if this device is not the root.
  BufferPlace to;    ///< Unused by a send, and by a broadcast if this device is the root.

  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
  static constexpr auto fields = weft::fields(
      &CollectiveCall::kind, &CollectiveCall::dtype, &CollectiveCall::op, &CollectiveCall::peer,
      &CollectiveCall::count, &CollectiveCall::from, &CollectiveCall::to);
};

// Steps of a device, executed in order on one stream.

struct CopyStep {
  std::vector<StridedCopy> copies;  ///< Copies of disjoint bytes, in any order or concurrently.
  friend bool operator==(const CopyStep&, const CopyStep&) = default;
  static constexpr auto fields = weft::fields(&CopyStep::copies);
};
/// Calls that proceed together (an NCCL group) on one communicator. `number` counts the rounds of
/// the transfer over all devices; members execute their rounds in ascending order.
struct RoundStep {
  std::uint32_t group = 0;  ///< Index into DeviceOperations::groups.
  std::uint32_t number = 0;
  std::vector<CollectiveCall> calls;
  friend bool operator==(const RoundStep&, const RoundStep&) = default;
  static constexpr auto fields =
      weft::fields(&RoundStep::group, &RoundStep::number, &RoundStep::calls);
};
/// Sum to[i] = terms[0][i] + terms[1][i] + ..., added in this order. bf16 accumulates in f32 and
/// rounds once. `to` may be one of the terms.
struct SumStep {
  DType dtype = DType::kF32;
  std::uint64_t count = 0;
  std::vector<BufferPlace> terms;
  BufferPlace to;
  friend bool operator==(const SumStep&, const SumStep&) = default;
  static constexpr auto fields =
      weft::fields(&SumStep::dtype, &SumStep::count, &SumStep::terms, &SumStep::to);
};

using OperationStep = std::variant<CopyStep, RoundStep, SumStep>;

/// Payload for another device.
struct SentBytes {
  DeviceId to;
  std::uint64_t bytes = 0;
  friend bool operator==(const SentBytes&, const SentBytes&) = default;
  static constexpr auto fields = weft::fields(&SentBytes::to, &SentBytes::bytes);
};

/// All work of one device for one plan through its GPU library. A value that travels in the
/// device's program, as DevicePart does for transfers by engines.
struct DeviceOperations {
  DeviceId device;
  std::vector<CommunicatorGroup> groups;    ///< Communicators that its rounds use.
  std::vector<std::uint64_t> source_bytes;  ///< Bytes by tensor; 0 if the device holds nothing.
  std::vector<std::uint64_t> destination_bytes;
  std::uint64_t staging_bytes = 0;
  std::vector<OperationStep> steps;
  /// Planned payload per destination, counted from the plan's flows; set if the plan was lowered
  /// for a program. NCCL may route and count differently.
  std::vector<SentBytes> sent = {};
  std::uint64_t received = 0;

  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_received() const { return received; }
  bool empty() const { return steps.empty(); }
  friend bool operator==(const DeviceOperations&, const DeviceOperations&) = default;
  static constexpr auto fields = weft::fields(
      &DeviceOperations::device, &DeviceOperations::groups, &DeviceOperations::source_bytes,
      &DeviceOperations::destination_bytes, &DeviceOperations::staging_bytes,
      &DeviceOperations::steps, &DeviceOperations::sent, &DeviceOperations::received);
};

/// Formats the operations with one line per step, such as "round 1 on {0,2}: send 64 u8 of source
/// 0+0 for rank 1".
std::string to_string(const DeviceOperations& operations);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::BufferKind> {
  static constexpr auto kValue = weft::transfer::BufferKind::kStaging;
};
template <>
struct weft::last_enumerator<weft::transfer::CallKind> {
  static constexpr auto kValue = weft::transfer::CallKind::kAllGather;
};

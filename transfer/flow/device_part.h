#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"
#include "transfer/flow/flow.h"

namespace weft::transfer {

/// One device's role in one flow: receives from its parent (the root has none), sends to its
/// children.
struct FlowRole {
  FlowId flow;
  FlowKind kind = FlowKind::kDeliver;
  std::vector<Segment> segments;
  std::optional<DeviceId> parent;
  std::vector<DeviceId> children;
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint32_t window = 0;
  /// kContribution where received, kResult at its root: the reduction (index into
  /// DevicePart::reductions).
  std::uint32_t reduction = 0;
  /// kContribution: the rank whose term this is.
  std::uint32_t rank = 0;
  /// kSum, the last of the chain: the flow in which its children get the sum.
  std::optional<FlowId> result = std::nullopt;
  /// kSum, the last of the chain: the sum also goes into its own destination.
  bool keeps = false;

  std::uint32_t num_chunks() const { return (bytes + chunk_bytes - 1) / chunk_bytes; }
  /// What its children know the stream as.
  FlowId sent_as() const { return result.value_or(flow); }
  /// Adds its own term to what arrives.
  bool adds() const { return kind == FlowKind::kSum && parent.has_value(); }
  friend bool operator==(const FlowRole&, const FlowRole&) = default;
  static constexpr auto fields =
      weft::fields(&FlowRole::flow, &FlowRole::kind, &FlowRole::segments, &FlowRole::parent,
                   &FlowRole::children, &FlowRole::bytes, &FlowRole::chunk_bytes, &FlowRole::window,
                   &FlowRole::reduction, &FlowRole::rank, &FlowRole::result, &FlowRole::keeps);
};

enum class ReduceOp : std::uint8_t { kSum, kMax };

/// A collective works on one tensor, the part's only one: destination[region] = term 0 (+) term 1
/// (+) ... in rank order. This device's own term is source[region], the others arrive as
/// kContribution streams. Chunk by chunk, as soon as all terms of a chunk are there.
struct Reduction {
  Region region;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t num_ranks = 0;
  std::uint32_t own_rank = 0;
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint32_t window = 0;

  std::uint32_t num_chunks() const { return (bytes + chunk_bytes - 1) / chunk_bytes; }
  friend bool operator==(const Reduction&, const Reduction&) = default;
  static constexpr auto fields =
      weft::fields(&Reduction::region, &Reduction::op, &Reduction::num_ranks, &Reduction::own_rank,
                   &Reduction::bytes, &Reduction::chunk_bytes, &Reduction::window);
};

/// What one device has of one tensor before and after: the source box (absent if it holds nothing)
/// and the destination box (absent if it wants nothing), both dense and row-major. Their memory is
/// named at execution.
struct TensorPart {
  DType dtype = DType::kF32;
  std::optional<Region> source;
  std::optional<Region> destination;

  std::size_t source_bytes() const;
  std::size_t destination_bytes() const;
  friend bool operator==(const TensorPart&, const TensorPart&) = default;
  static constexpr auto fields =
      weft::fields(&TensorPart::dtype, &TensorPart::source, &TensorPart::destination);
};

/// A region that a device copies from its source box to its destination box of a tensor.
struct TensorCopy {
  std::uint32_t tensor = 0;
  Region region;
  friend bool operator==(const TensorCopy&, const TensorCopy&) = default;
  static constexpr auto fields = weft::fields(&TensorCopy::tensor, &TensorCopy::region);
};

/// All that one device must do for one plan (a resharding or a collective): a value that travels in
/// its program.
struct DevicePart {
  DeviceId device;
  /// All of the plan's, also those that this device has nothing of.
  std::vector<TensorPart> tensors;
  std::vector<TensorCopy> copies;  ///< Without any message.
  std::vector<FlowRole> streams;   ///< Ascending by flow.
  std::vector<Reduction> reductions;
  /// How many of the streams may send to other hosts at a time; 0: as many as the engine's
  /// EgressRule says.
  std::uint32_t egress_places = 0;

  /// Nothing to send, receive or copy.
  bool empty() const { return copies.empty() && streams.empty() && reductions.empty(); }
  /// It holds or wants something of some tensor.
  bool has_buffers() const;
  /// Bytes of payload this device sends and receives, over all edges.
  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_received() const;
  /// Every device that this one sends to or receives from, ascending: those must be connected.
  std::vector<DeviceId> peers() const;

  friend bool operator==(const DevicePart&, const DevicePart&) = default;
  static constexpr auto fields =
      weft::fields(&DevicePart::device, &DevicePart::tensors, &DevicePart::copies,
                   &DevicePart::streams, &DevicePart::reductions, &DevicePart::egress_places);
};

/// A line per copy, stream and reduction.
std::string to_string(const DevicePart& part);

/// `flows` as one device sees them; streams without a role are left out. The last device of a kSum
/// has one stream for that and for the kResult behind it. `keeps` is left to the caller.
std::vector<FlowRole> streams_of(const std::vector<Flow>& flows, DeviceId device);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::ReduceOp> {
  static constexpr auto kValue = weft::transfer::ReduceOp::kMax;
};

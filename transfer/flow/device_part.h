#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"
#include "transfer/flow/flow.h"

namespace weft::transfer {

/// Role of one device in one flow. The device receives from its parent (the root has none) and
/// sends to its children.
struct FlowRole {
  FlowId flow;
  FlowKind kind = FlowKind::kDeliver;
  std::vector<Segment> segments;
  std::optional<DeviceId> parent;
  std::vector<DeviceId> children;
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint32_t window = 0;
  /// Index into DevicePart::reductions. Set for a kContribution where it is received and for a
  /// kResult at its root.
  std::uint32_t reduction = 0;
  /// Rank that contributed the term. kContribution only.
  std::uint32_t rank = 0;
  /// Flow that carries the total to the children of the last device of a kSum chain.
  std::optional<FlowId> result = std::nullopt;
  /// True if the last device of a kSum chain also writes the total to its own destination.
  bool stores_sum = false;

  std::uint32_t num_chunks() const { return (bytes + chunk_bytes - 1) / chunk_bytes; }
  /// Returns the flow id under which the children receive this stream.
  FlowId outgoing_id() const { return result.value_or(flow); }
  /// Returns true if the device adds its own term to the arriving bytes.
  bool adds_own_term() const { return kind == FlowKind::kSum && parent.has_value(); }
  friend bool operator==(const FlowRole&, const FlowRole&) = default;
  static constexpr auto fields =
      weft::fields(&FlowRole::flow, &FlowRole::kind, &FlowRole::segments, &FlowRole::parent,
                   &FlowRole::children, &FlowRole::bytes, &FlowRole::chunk_bytes, &FlowRole::window,
                   &FlowRole::reduction, &FlowRole::rank, &FlowRole::result, &FlowRole::stores_sum);
};

enum class ReduceOp : std::uint8_t { kSum, kMax };

/// Ordered reduction of one tensor, the part's only one: destination[region] = term 0 (+) term 1
/// (+) ... in rank order. This device's own term is source[region]; the others arrive as
/// kContribution streams. Each chunk is reduced as soon as all its terms are present.
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

/// Boxes of one tensor at one device, dense and row-major. The source is absent if the device holds
/// nothing, the destination if it needs nothing. Buffers are given at execution.
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

/// Region that a device copies from its source box to its destination box of a tensor.
struct TensorCopy {
  std::uint32_t tensor = 0;
  Region region;
  friend bool operator==(const TensorCopy&, const TensorCopy&) = default;
  static constexpr auto fields = weft::fields(&TensorCopy::tensor, &TensorCopy::region);
};

/// All work of one device for one plan (a resharding or a collective). A value that travels in the
/// device's program.
struct DevicePart {
  DeviceId device;
  /// All tensors of the plan, including those of which this device has nothing.
  std::vector<TensorPart> tensors;
  std::vector<TensorCopy> copies;  ///< Local copies, without messages.
  std::vector<FlowRole> streams;   ///< Streams in ascending order of their flows.
  std::vector<Reduction> reductions;
  /// Number of streams that may send to other hosts at a time. 0: as the engine's EgressLimit says.
  std::uint32_t egress_slots = 0;

  /// Returns true if there is nothing to send, receive or copy.
  bool empty() const { return copies.empty() && streams.empty() && reductions.empty(); }
  /// Returns true if the device has a source or destination box of some tensor.
  bool has_buffers() const;
  /// Returns the payload bytes that this device sends, summed over all edges.
  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_received() const;
  /// Returns every device that this one sends to or receives from, ascending. These devices must be
  /// connected.
  std::vector<DeviceId> peers() const;

  friend bool operator==(const DevicePart&, const DevicePart&) = default;
  static constexpr auto fields =
      weft::fields(&DevicePart::device, &DevicePart::tensors, &DevicePart::copies,
                   &DevicePart::streams, &DevicePart::reductions, &DevicePart::egress_slots);
};

/// Formats the part with one line per copy, stream and reduction.
std::string to_string(const DevicePart& part);

/// Returns the roles of `device` in `flows`. Omits flows in which it has none. The last device of a
/// kSum chain has one role for the kSum and the kResult after it. Leaves `stores_sum` unset.
std::vector<FlowRole> flow_roles_of(const std::vector<Flow>& flows, DeviceId device);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::ReduceOp> {
  static constexpr auto kValue = weft::transfer::ReduceOp::kMax;
};

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/region.h"
#include "core/tensor/region_codec.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// Identifier of a flow, unique within one plan. Messages carry it, so both ends agree on it.
using FlowId = StrongId<struct FlowTag>;

/// Source and destination of a flow's bytes: what the root reads and where receivers write.
enum class FlowKind : std::uint8_t {
  kDeliver,  ///< Copy of the root's source shard into the receivers' destination shards.
  /// Copy of the root's source into a staging slot, where it is one term of an ordered reduction.
  kContribution,
  /// Copy of the root's reduced result (in its destination) into the receivers' destinations.
  kResult,
  /// Chain of partial sums. The root sends its source. Each next device adds its own source to the
  /// arriving bytes (`arrived + own`) and forwards the sum; the last device holds the total. If
  /// other devices need the total, the next flow of the plan is a kResult with that device as root
  /// and the same chunks.
  kSum,
};

/// Tree edge: `parent` sends every chunk of the flow to `child`.
struct FlowEdge {
  DeviceId parent;
  DeviceId child;
  friend bool operator==(const FlowEdge&, const FlowEdge&) = default;
  static constexpr auto fields = weft::fields(&FlowEdge::parent, &FlowEdge::child);
};

/// Bytes [begin, begin + bytes) of `region` of tensor `tensor` (index in the plan). The region is
/// addressed as a dense row-major box.
struct Segment {
  std::uint32_t tensor = 0;
  Region region;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;

  /// Returns the segment that covers all of `region`.
  static Segment whole(std::uint32_t tensor, const Region& region, std::size_t element_size);

  friend bool operator==(const Segment&, const Segment&) = default;
  static constexpr auto fields =
      weft::fields(&Segment::tensor, &Segment::region, &Segment::begin, &Segment::bytes);
};

/// Formats a segment, such as "[0:4,0:8]" or "tensor 2 [0:4,0:8] from byte 64".
std::string to_string(const Segment& segment);
/// Formats the first three segments and the number of the others.
std::string to_string(const std::vector<Segment>& segments);

/// Payload that travels in chunks from the root down a tree of devices. The payload is the
/// concatenation of the segments, so small tensors can share a flow and several flows can share a
/// large region.
///
/// Chunk i is the bytes [i * chunk_bytes, min((i + 1) * chunk_bytes, bytes)) of the payload. A
/// device forwards a chunk as soon as it has landed. At most `window` chunks are in flight on an
/// edge, which bounds the memory of a hop. Each hop delays the flow by the time of one chunk.
///
/// The id is also the priority: where flows of one plan compete for a link, the lower id goes
/// first.
struct Flow {
  FlowId id;
  FlowKind kind = FlowKind::kDeliver;
  std::vector<Segment> segments;
  DeviceId root;
  std::vector<FlowEdge> edges;  ///< Edges of the tree, parents before their children.
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint32_t window = 0;

  friend bool operator==(const Flow&, const Flow&) = default;
  static constexpr auto fields =
      weft::fields(&Flow::id, &Flow::kind, &Flow::segments, &Flow::root, &Flow::edges, &Flow::bytes,
                   &Flow::chunk_bytes, &Flow::window);
};

/// Formats a flow, such as "flow 3 [0:4,0:8] 128 B: 0->2 2->3, 1 chunk of 128 B, window 2".
std::string to_string(const Flow& flow);

/// Rules by which plans cut flows into chunks. Part of the plan, never derived from local state.
struct ChunkOptions {
  /// Largest chunk, in bytes, of a flow that some device forwards. The default takes about 2 ms on
  /// a 1 Gbit/s link.
  std::uint64_t chunk_bytes = 256 * 1024;
  /// Largest chunk, in bytes, of a flow with one hop, where pipelining gains nothing.
  std::uint64_t direct_chunk_bytes = 1024 * 1024;
  std::uint32_t window = 2;

  friend bool operator==(const ChunkOptions&, const ChunkOptions&) = default;
  static constexpr auto fields = weft::fields(
      &ChunkOptions::chunk_bytes, &ChunkOptions::direct_chunk_bytes, &ChunkOptions::window);
};

/// Sets `bytes`, `chunk_bytes` and `window` from the segments. Chunks are about equal. With one
/// segment of small rows, chunks are whole rows (a row is everything inside the outermost dimension
/// wider than one). Otherwise chunks are multiples of 64 bytes. `element_size` is that of the first
/// segment's tensor. Throws Error(kInvalidArgument) for empty segments and invalid options.
void set_chunks(Flow& flow, std::size_t element_size, const ChunkOptions& options);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::FlowKind> {
  static constexpr auto kValue = weft::transfer::FlowKind::kSum;
};

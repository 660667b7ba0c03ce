#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/region.h"
#include "core/tensor/region_codec.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// Unique within one plan; both ends of a message name it.
using FlowId = StrongId<struct FlowTag>;

/// Where a flow's bytes come from at its root and go to at the others.
enum class FlowKind : std::uint8_t {
  kDeliver,  ///< From the root's source shard into the receivers' destination shards.
  /// From the root's source into a staging slot, where it is one term of an ordered reduction.
  kContribution,
  /// From the root's reduced result (in its destination) into the receivers' destinations.
  kResult,
  /// A chain of partial sums: the root sends its source, every next device adds its own source to
  /// what arrives, as `arrived + own`, and passes that on; the last one has the sum. Where others
  /// want it, the next flow of the plan is a kResult with that device as root and the same chunks.
  kSum,
};

/// `parent` sends every chunk of the flow to `child`.
struct FlowEdge {
  DeviceId parent;
  DeviceId child;
  friend bool operator==(const FlowEdge&, const FlowEdge&) = default;
  static constexpr auto fields = weft::fields(&FlowEdge::parent, &FlowEdge::child);
};

/// Bytes [begin, begin + bytes) of a region of one of the plan's tensors, the region taken as a
/// dense row-major box.
struct Segment {
  std::uint32_t tensor = 0;
  Region region;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;

  /// All of `region`.
  static Segment whole(std::uint32_t tensor, const Region& region, std::size_t element_size);

  friend bool operator==(const Segment&, const Segment&) = default;
  static constexpr auto fields =
      weft::fields(&Segment::tensor, &Segment::region, &Segment::begin, &Segment::bytes);
};

/// "[0:4,0:8]", "tensor 2 [0:4,0:8] from byte 64".
std::string to_string(const Segment& segment);
/// The first few of them.
std::string to_string(const std::vector<Segment>& segments);

/// Bytes that travel down a tree of devices, in chunks, from the root. The payload is the
/// concatenation of the segments: so small tensors can share a flow, and several flows can share a
/// large region.
///
/// Chunk i is the bytes [i * chunk_bytes, min((i + 1) * chunk_bytes, bytes)) of the payload. A
/// device passes a chunk on as soon as it has landed. At most `window` chunks are under way on an
/// edge, which is the memory a hop may need. A chunk is what filling the pipeline costs per hop.
///
/// The id is also the flow's priority: where flows of one plan compete for a link, the lower one
/// goes first.
struct Flow {
  FlowId id;
  FlowKind kind = FlowKind::kDeliver;
  std::vector<Segment> segments;
  DeviceId root;
  std::vector<FlowEdge> edges;  ///< Parents before their children.
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint32_t window = 0;

  friend bool operator==(const Flow&, const Flow&) = default;
  static constexpr auto fields =
      weft::fields(&Flow::id, &Flow::kind, &Flow::segments, &Flow::root, &Flow::edges, &Flow::bytes,
                   &Flow::chunk_bytes, &Flow::window);
};

/// "flow 3 [0:4,0:8] 128 B: 0->2 2->3, 1 chunk of 128 B, window 2".
std::string to_string(const Flow& flow);

/// How plans cut flows into chunks. Part of the plan, never derived from local state.
struct ChunkOptions {
  /// Chunk of a flow that some device forwards: about 2 ms of a 1 Gbit/s link.
  std::uint64_t chunk_bytes = 256 * 1024;
  /// Chunk of a flow with one hop, where pipelining gains nothing.
  std::uint64_t direct_chunk_bytes = 1024 * 1024;
  std::uint32_t window = 2;

  friend bool operator==(const ChunkOptions&, const ChunkOptions&) = default;
  static constexpr auto fields = weft::fields(
      &ChunkOptions::chunk_bytes, &ChunkOptions::direct_chunk_bytes, &ChunkOptions::window);
};

/// Fills in bytes, chunk_bytes and window from the segments. Chunks are about equal, and whole rows
/// (everything but the outermost wide dimension) where there is one segment and those are small
/// enough, else multiples of 64 bytes. `element_size`: of the first segment's tensor.
void set_chunks(Flow& flow, std::size_t element_size, const ChunkOptions& options);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::FlowKind> {
  static constexpr auto kValue = weft::transfer::FlowKind::kSum;
};

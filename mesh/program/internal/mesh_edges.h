#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "mesh/program/internal/mesh_buffers.h"
#include "mesh/program/lanes.h"

namespace weft::mesh {

/// In safe mode: a tensor to be sent to another mesh once all its devices have computed it.
struct OutgoingTensor {
  std::size_t edge = 0;
  int microbatch = 0;
  std::map<int, std::uint32_t> sources;  ///< Sending buffers, by rank.
};

/// One mesh's side of all edges between meshes: emits receives, sends and waits.
///
/// With lanes, each device posts the receives for its first `credits` compounds at the start, and
/// those for another one after each compound that first uses a received tensor. A send starts as
/// soon as its tensor exists; the device waits for it where the tensor has arrived anyway. In safe
/// mode, the caller takes the tensors that are ready and has both sides emit a blocking transfer.
class MeshEdges {
 public:
  /// `edges` are all edges between meshes; `lanes` is parallel to it. `buffers`: those of all
  /// meshes, for devices that both send and receive on an edge. Adds the transfers to the programs.
  MeshEdges(MeshView mesh, const MeshEmitters& emitters, BuffersOfMeshes& buffers,
            const std::vector<PlannedEdge>& edges, const std::vector<Lane>& lanes,
            const CompileOptions& options);

  /// Sends a value from these ranks, which have just computed it, on all edges that it has. In safe
  /// mode, only notes that these ranks have it.
  void send(LocalId id, int microbatch, const std::vector<int>& ranks);

  /// Posts the first receives of an actor. With lanes only; call before the actor's first action.
  void post_first_receives(int actor);
  /// Posts the receives and emits the waits that are due once an action of any mesh has ended. With
  /// lanes only. Call for all members of a compound at its end.
  void finish_action(ActionPlace place);

  /// Returns the tensors that became ready to be sent since the last call. Safe mode only.
  std::vector<OutgoingTensor> take_ready_tensors() { return std::exchange(ready_, {}); }
  /// Emits start and wait of a transfer on this mesh's side. Safe mode only.
  void emit_blocking_transfer(const OutgoingTensor& outgoing);

 private:
  /// This mesh's side of an edge.
  struct EdgeSide {
    std::size_t edge = 0;
    bool sends = false;
    std::vector<std::size_t> posted;  ///< Receives started so far, by rank.
    /// Index into Program::transfers, by rank. Absent if the device takes no part, or if this is
    /// the receiving side and the device also sends on the edge.
    std::vector<std::optional<std::uint32_t>> transfer;
  };
  EdgeSide make_side(std::size_t edge) const;
  std::uint32_t instance(LocalId id, int microbatch, int rank) const {
    return buffers_[mesh_.id()]->instance(id, microbatch, rank);
  }
  /// Returns the device's receiving buffer if it both sends and receives on the edge.
  std::optional<std::uint32_t> destination_here(const EdgeSide& side, int microbatch,
                                                int rank) const;
  void note_ready(const EdgeSide& side, LocalId id, int microbatch, const std::vector<int>& ranks);
  void start_send(const EdgeSide& side, LocalId id, int microbatch, int rank);
  /// Posts the receives for the first `compounds` compounds that use tensors of the edge.
  void post_receives(EdgeSide& side, int rank, std::size_t compounds);

  const MeshView mesh_;
  const MeshEmitters& emitters_;
  BuffersOfMeshes& buffers_;
  const std::vector<PlannedEdge>& edges_;
  const std::vector<Lane>& lanes_;
  const CompileOptions& options_;
  std::vector<EdgeSide> sides_;
  /// Handles of sends in flight, by rank. Keyed by Lane::arrival_known_at: after that action,
  /// waiting for the send does not block.
  std::vector<std::multimap<std::size_t, std::uint32_t>> unfinished_;
  std::vector<OutgoingTensor> ready_;
  /// In safe mode: tensors that not all devices have computed yet, by (edge, microbatch).
  std::map<std::pair<std::size_t, int>, OutgoingTensor> incomplete_;
};

}  // namespace weft::mesh

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/sharding/device_mesh.h"
#include "mesh/sharding/spec.h"

namespace weft::mesh {

enum class MoveKind : std::uint8_t {
  kSlice,          ///< Each device keeps a part of its shard. Nothing is sent.
  kAllGather,      ///< Undoes the innermost splits of a dimension.
  kReduceScatter,  ///< Sums; each device keeps its new part.
  kAllReduce,      ///< Sums; each device keeps everything.
  kAllToAll,       ///< Each device receives the missing elements of its new part.
};
/// Returns "slice", "all-gather", "reduce-scatter", "all-reduce" or "all-to-all".
std::string_view to_string(MoveKind kind);

/// Collective that changes the spec of a tensor on its mesh. Each group of devices that differ only
/// along `axes` takes part together. Sums are in the order of ranks.
struct Move {
  MoveKind kind = MoveKind::kSlice;
  std::vector<int> axes;  ///< Mesh axes, ascending.
  Spec from;
  Spec to;
  friend bool operator==(const Move&, const Move&) = default;
};

/// Returns text such as "reduce-scatter tensor: [data,-] partial(tensor) -> [data+tensor,-]".
std::string to_string(const Move& move, const DeviceMesh& mesh);

/// Returns the elements that a device receives when a tensor of `shape` is moved. For an
/// all-to-all: the most that any device lacks. For others, a ring algorithm's count: n - 1 times a
/// neighbour's part, twice that for an all-reduce.
std::int64_t received_elements(const Shape& shape, const Move& move, const DeviceMesh& mesh);

/// Returns moves from one spec of a tensor of `shape` to another. Of all sequences, takes one in
/// which a device receives the fewest elements, and of these the shortest. Empty if the specs are
/// equal. `to` may be partial only over axes over which `from` is partial: no move makes partial
/// sums. `to` must divide the shape evenly; so do all intermediate specs.
std::vector<Move> plan_moves(const Shape& shape, const Spec& from, const Spec& to,
                             const DeviceMesh& mesh);

}  // namespace weft::mesh

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/sharding/device_mesh.h"
#include "mesh/sharding/spec.h"

namespace weft::mesh {

enum class MoveKind : std::uint8_t {
  kSlice,          ///< Each device keeps a part of what it has: nothing is sent.
  kAllGather,      ///< Undoes the innermost splits of a dimension.
  kReduceScatter,  ///< Sums, and each device keeps the part that becomes its own.
  kAllReduce,      ///< Sums, and each device keeps all of it.
  kAllToAll,       ///< Each device receives what it lacks of its new part.
};
/// "slice", "all-gather", "reduce-scatter", "all-reduce", "all-to-all".
std::string_view to_string(MoveKind kind);

/// One collective that changes how a tensor lies on its mesh. Devices that differ along `axes` only
/// do it together; sums are taken in the order of their ranks.
struct Move {
  MoveKind kind = MoveKind::kSlice;
  std::vector<int> axes;  ///< Ascending.
  Spec from;
  Spec to;
  friend bool operator==(const Move&, const Move&) = default;
};

/// "reduce-scatter tensor: [data,-] partial(tensor) -> [data+tensor,-]".
std::string to_string(const Move& move, const DeviceMesh& mesh);

/// Elements that a device receives in a move of a tensor of `shape`, as a ring does it (its
/// neighbour's part, n - 1 times, and twice that for an all-reduce); of an all-to-all what the
/// device that lacks most lacks.
std::int64_t received_elements(const Shape& shape, const Move& move, const DeviceMesh& mesh);

/// Brings a tensor of `shape` from one spec to another: of all sequences of moves one in which a
/// device receives the fewest elements, and of these the shortest. Empty where the specs are equal.
/// `to` may be partial only over axes over which `from` is: nothing makes partial sums of a whole
/// tensor. `to` must divide the shape evenly; so do all specs between.
std::vector<Move> plan_moves(const Shape& shape, const Spec& from, const Spec& to,
                             const DeviceMesh& mesh);

}  // namespace weft::mesh

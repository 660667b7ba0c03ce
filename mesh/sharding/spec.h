#pragma once

#include <string>
#include <vector>

#include "core/tensor/region.h"
#include "mesh/sharding/device_mesh.h"
#include "transfer/reshard/shard_map.h"

namespace weft::mesh {

/// How a tensor lies on a mesh. Per dimension an ordered list of mesh axes (outer first) that split
/// it, and the axes over which the values are partial: the tensor is the sum over them. Axes not
/// named hold replicas.
struct Spec {
  std::vector<std::vector<int>> dims;  ///< Axis indices of the mesh.
  std::vector<int> partial;            ///< Ascending.

  static Spec replicated(std::size_t rank) { return {std::vector<std::vector<int>>(rank), {}}; }
  bool is_partial() const { return !partial.empty(); }
  /// The dimension that `axis` splits, or -1.
  int dim_of(int axis) const;
  bool is_partial_over(int axis) const;
  /// True if neither a dimension nor the partial sum uses `axis`.
  bool is_replicated_over(int axis) const { return dim_of(axis) < 0 && !is_partial_over(axis); }
  friend bool operator==(const Spec&, const Spec&) = default;
  friend auto operator<=>(const Spec&, const Spec&) = default;
};

/// "data+tensor".
std::string axes_text(const std::vector<int>& axes, const DeviceMesh& mesh);
/// "[data,-,tensor]", "[data,-] partial(tensor)".
std::string to_string(const Spec& spec, const DeviceMesh& mesh);

/// The box of a tensor of `shape` that the device at `rank` holds. n elements over k chunks: chunk
/// i is [i*n/k, (i+1)*n/k), so chunks differ by at most one. Throws Error(kInvalidArgument) when a
/// chunk would be empty.
Region region_of(const Shape& shape, const Spec& spec, const DeviceMesh& mesh, int rank);

/// Extents of that box.
Shape local_shape(const Shape& shape, const Spec& spec, const DeviceMesh& mesh, int rank);

/// Which device holds which region. The spec must not be partial.
transfer::ShardMap shard_map(const Shape& shape, const Spec& spec, const DeviceMesh& mesh);

/// True for the one device among those with equal regions whose other coordinates are all 0.
bool is_first_replica(const Spec& spec, const DeviceMesh& mesh, int rank);

}  // namespace weft::mesh

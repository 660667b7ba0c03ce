#pragma once

#include <string>
#include <vector>

#include "core/tensor/region.h"
#include "mesh/sharding/device_mesh.h"
#include "transfer/reshard/shard_map.h"

namespace weft::mesh {

/// Distribution of a tensor over a mesh. Each dimension has an ordered list of the mesh axes that
/// split it, outermost first. Over the axes in `partial` the tensor is the sum of the devices'
/// values. Other axes hold replicas.
struct Spec {
  std::vector<std::vector<int>> dims;  ///< Indices of mesh axes.
  std::vector<int> partial;            ///< Mesh axes, ascending.

  static Spec replicated(std::size_t rank) { return {std::vector<std::vector<int>>(rank), {}}; }
  bool is_partial() const { return !partial.empty(); }
  /// Returns the dimension that `axis` splits, or -1.
  int dim_of(int axis) const;
  bool is_partial_over(int axis) const;
  /// True if neither a dimension nor the partial sum uses `axis`.
  bool is_replicated_over(int axis) const { return dim_of(axis) < 0 && !is_partial_over(axis); }
  friend bool operator==(const Spec&, const Spec&) = default;
  friend auto operator<=>(const Spec&, const Spec&) = default;
};

/// Returns text such as "data+tensor".
std::string axes_text(const std::vector<int>& axes, const DeviceMesh& mesh);
/// Returns text such as "[data,-,tensor]" or "[data,-] partial(tensor)".
std::string to_string(const Spec& spec, const DeviceMesh& mesh);

/// Returns the region of a tensor of `shape` that the device at `rank` holds. Chunk i of n elements
/// over k chunks is [i*n/k, (i+1)*n/k), so chunks differ by at most one. Throws
/// Error(kInvalidArgument) if a chunk would be empty.
Region region_of(const Shape& shape, const Spec& spec, const DeviceMesh& mesh, int rank);

/// Returns the extents of that region.
Shape local_shape(const Shape& shape, const Spec& spec, const DeviceMesh& mesh, int rank);

/// Returns the region of each device. The spec must not be partial.
transfer::ShardMap shard_map(const Shape& shape, const Spec& spec, const DeviceMesh& mesh);

/// True for one device of each group with equal regions: the one at index 0 of all replicated axes.
bool is_first_replica(const Spec& spec, const DeviceMesh& mesh, int rank);

}  // namespace weft::mesh

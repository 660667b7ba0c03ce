#pragma once

#include "mesh/partition/partition.h"

namespace weft::mesh {

/// Copies of parameters that the moves of a mesh make: gathered ones, and slices. They are equal
/// for all microbatches of a step, and a forward and a backward may make the same one.
class ParameterCopies {
 public:
  explicit ParameterCopies(const MeshPartition& part);

  /// Returns whether a move makes the value from a parameter.
  bool has(LocalId id) const { return is_copy_[id]; }
  /// Returns the first value of the partition that holds the same as this one.
  LocalId first_equal(LocalId id) const { return first_equal_[id]; }

 private:
  IndexedVector<LocalId, bool> is_copy_;
  IndexedVector<LocalId, LocalId> first_equal_;
};

}  // namespace weft::mesh

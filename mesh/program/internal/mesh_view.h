#pragma once

#include "core/graph/graph.h"
#include "core/tensor/region.h"
#include "core/tensor/shape.h"
#include "mesh/partition/partition.h"
#include "mesh/sharding/spec.h"

namespace weft::mesh {

/// One mesh of a partition, with the types and names of its values. Borrows the partition; cheap to
/// copy.
class MeshView {
 public:
  MeshView(const Partition& partition, MeshId id) : partition_(&partition), id_(id) {}

  const Partition& partition() const { return *partition_; }
  MeshId id() const { return id_; }
  const DeviceMesh& mesh() const { return partition_->meshes[id_]; }
  const MeshPartition& part() const { return partition_->per_mesh[id_]; }
  /// Returns whether this is the spanning mesh, whose devices belong to several actors.
  bool spans() const { return partition_->spans(id_); }

  const LocalValue& local(LocalId id) const { return part().locals[id]; }
  /// Returns the value of the graph behind a local value. Its type is of the whole tensor.
  const Value& value(LocalId id) const { return partition_->graph.value(local(id).value); }
  /// Returns the part of the whole tensor that the device at `rank` holds.
  Region region(LocalId id, int rank) const {
    return region_of(value(id).type.shape, local(id).spec, mesh(), rank);
  }
  /// Returns the type of that part.
  TensorType local_type(LocalId id, int rank) const {
    return {value(id).type.dtype, region(id, rank).shape()};
  }
  /// Returns the type of a parameter's optimizer value, moments and gradient: f32, in the
  /// parameter's spec.
  TensorType state_type(LocalId parameter, int rank) const {
    return {DType::kF32, region(parameter, rank).shape()};
  }

 private:
  const Partition* partition_;
  MeshId id_;
};

}  // namespace weft::mesh

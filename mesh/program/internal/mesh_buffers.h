#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "mesh/program/internal/mesh_emitters.h"
#include "mesh/program/internal/mesh_view.h"

namespace weft::mesh {

/// Buffers of one mesh's values, on every device of the mesh.
///
/// A parameter has one buffer, which exists from the start. Every other value has an instance per
/// microbatch, or one per step if LocalValue::once_per_step; its buffer is made on first use.
class MeshBuffers {
 public:
  /// Adds the parameters' blocks and the inputs to the programs.
  MeshBuffers(MeshView mesh, const MeshEmitters& emitters);

  /// Returns the buffer from which ops read a parameter.
  std::uint32_t parameter(LocalId id, int rank) const { return parameters_[rank].at(id); }
  /// Returns the buffer of a value for a microbatch; makes the buffer on first use. The first use
  /// of an input also emits the instruction that reads the input.
  std::uint32_t instance(LocalId id, int microbatch, int rank);
  /// Returns whether the instance has a buffer. The value is not a parameter.
  bool has_instance(LocalId id, int microbatch, int rank) const {
    return instances_[rank].contains(key(id, microbatch));
  }
  /// Sets the buffer of an instance.
  void set_instance(LocalId id, int microbatch, int rank, std::uint32_t buffer) {
    instances_[rank][key(id, microbatch)] = buffer;
  }
  /// Forgets the buffer of an instance, so that the next use makes another. Ignores values that
  /// exist once per step.
  void drop_instance(LocalId id, int microbatch, int rank) {
    if (!mesh_.local(id).once_per_step) instances_[rank].erase({id, microbatch});
  }

 private:
  using Instance = std::pair<LocalId, int>;  ///< Value and microbatch; -1: all microbatches.
  Instance key(LocalId id, int microbatch) const {
    return {id, mesh_.local(id).once_per_step ? -1 : microbatch};
  }

  const MeshView mesh_;
  const MeshEmitters& emitters_;
  std::vector<std::map<LocalId, std::uint32_t>> parameters_;  ///< Buffers of parameters, by rank.
  std::vector<std::map<LocalId, std::uint32_t>> inputs_;      ///< Program::inputs, by rank.
  std::vector<std::map<Instance, std::uint32_t>> instances_;  ///< Buffers of values, by rank.
};

/// Buffers of all meshes. Filled mesh by mesh before any action is emitted.
using BuffersOfMeshes = IndexedVector<MeshId, std::unique_ptr<MeshBuffers>>;

}  // namespace weft::mesh

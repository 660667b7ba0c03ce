#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mesh/program/internal/gradient_reduction.h"

namespace weft::mesh {

/// Terms of the gradients of one mesh's parameters, after the reduction among the mesh's devices.
///
/// A parameter that several blocks share has one term per block. Each mesh with a copy of the
/// parameter receives the terms that it does not compute, and adds all terms in the same order.
class GradientTerms {
 public:
  /// Moves the mesh's own terms into the specs of their parameters. Call after
  /// GradientReduction::finish().
  GradientTerms(MeshView mesh, const MeshEmitters& emitters, const GradientSums& sums,
                const GradientReduction& reduction);

  /// Sends and receives the terms that this mesh and others owe each other.
  void exchange(const std::vector<TermTransfer>& transfers, Lowering lowering);
  /// Adds up the terms. Returns the gradients' buffers by index into MeshPartition::parameters, and
  /// by rank.
  std::vector<std::vector<std::uint32_t>> add_up() const;

 private:
  /// Buffers by rank.
  using Buffers = std::vector<std::uint32_t>;
  const std::string& name_of(std::size_t parameter) const;
  std::string block_of(std::size_t parameter, int term) const;
  /// Moves a whole sum from the spec `from` into its parameter's spec.
  Buffers reshard(const GradientSum& sum, const Spec& from) const;
  void exchange_term(const TermTransfer& transfer, Lowering lowering);

  const MeshView mesh_;
  const MeshEmitters& emitters_;
  /// Terms by index (GradientTerm::index), for each of MeshPartition::parameters.
  std::vector<std::map<int, Buffers>> terms_;
};

}  // namespace weft::mesh

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
/// parameter receives the terms that it does not compute, and adds all terms in the same order. A
/// term that needs no reduction is sent once it is complete; the receiver is ready for it from its
/// last backward on.
class GradientTerms {
 public:
  /// `transfers`: those of all meshes. Borrows all arguments.
  GradientTerms(MeshView mesh, const MeshEmitters& emitters, const GradientSums& sums,
                GradientReduction& reduction, const std::vector<TermTransfer>& transfers,
                Lowering lowering);

  /// Starts the receipts of other meshes' terms, unless it was called before. Not in safe mode.
  void start_receipts();
  /// Starts to send the terms that are complete and need no reduction. Not in safe mode.
  void send_complete();
  /// Finishes the reduction. Moves the mesh's own terms into the specs of their parameters, and
  /// starts the remaining transfers.
  void finish();
  /// Adds up the terms. Returns the gradients' buffers by index into MeshPartition::parameters, and
  /// by rank.
  std::vector<std::vector<std::uint32_t>> add_up() const;

 private:
  /// Buffers by rank.
  using Buffers = std::vector<std::uint32_t>;
  const std::string& name_of(std::size_t parameter) const;
  std::string block_of(std::size_t parameter, int term) const;
  /// Returns whether the sum is in its parameter's spec once it is reduced.
  bool is_at_home(std::size_t sum) const;
  /// Returns the index of the mesh's copy of a parameter of the graph.
  std::size_t parameter_of(const TermTransfer& transfer) const;
  /// Returns the sum that is this term.
  std::size_t sum_of(const TermTransfer& transfer) const;
  /// Moves a whole sum from the spec `from` into its parameter's spec.
  Buffers reshard(const GradientSum& sum, const Spec& from) const;
  /// Makes the mesh's own term from its reduced sum.
  void add_own_term(std::size_t sum);
  bool sends(const TermTransfer& transfer) const { return transfer.from_mesh == mesh_.id(); }
  /// Starts this mesh's part of a transfer, unless that was done before.
  void start(std::size_t transfer);

  const MeshView mesh_;
  const MeshEmitters& emitters_;
  const GradientSums& sums_;
  GradientReduction& reduction_;
  const std::vector<TermTransfer>& transfers_;
  const Lowering lowering_;
  std::vector<bool> is_mine_;     ///< Whether this mesh sends or receives, by transfer.
  std::vector<bool> is_started_;  ///< By transfer.
  /// Terms by index (GradientTerm::index), for each of MeshPartition::parameters.
  std::vector<std::map<int, Buffers>> terms_;
};

}  // namespace weft::mesh

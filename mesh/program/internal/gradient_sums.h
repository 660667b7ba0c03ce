#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mesh/program/internal/mesh_emitters.h"
#include "mesh/program/internal/mesh_view.h"

namespace weft::mesh {

/// Reduction that a group of gradient sums shares.
struct ReductionGroup {
  std::vector<int> axes;  ///< Axes over which the sums are partial at the end of the step.
  /// Subset of `axes` that shard the parameters further, outermost first. Reduce-scatter over them
  /// leaves each device its own part of the sum.
  std::vector<int> scattered;
  friend auto operator<=>(const ReductionGroup&, const ReductionGroup&) = default;
};

/// Persistent block of all sums that share a reduction, stage by stage, so that one all-reduce
/// covers all that are reduced together.
struct SumBlock {
  std::string name;
  std::uint64_t bytes = 0;
  /// Begin and end of each stage's sums, in bytes.
  std::map<StageId, std::pair<std::uint64_t, std::uint64_t>> stages;
};

/// Sum over the microbatches of one term of a parameter's gradient, on every rank. The sum may
/// still be partial over mesh axes.
struct GradientSum {
  std::size_t parameter = 0;  ///< Index into MeshPartition::parameters.
  GradientTerm term;
  StageId stage;  ///< Stage that computes the term.
  ReductionGroup group;
  std::vector<std::uint32_t> buffers = {};  ///< Accumulators, by rank.
};

/// Accumulators of one mesh's gradients: adds each microbatch's gradients during the actions.
///
/// If an op computes nothing but gradients, it adds its outputs to the accumulators itself. All
/// other gradients are made like any value, and added by an instruction of their own.
class GradientSums {
 public:
  /// Adds the accumulators' blocks to the programs. `sent`: values that leave the mesh.
  GradientSums(MeshView mesh, const MeshEmitters& emitters, const std::set<LocalId>& sent);

  /// Sums, ordered by parameter, then by term.
  const std::vector<GradientSum>& sums() const { return sums_; }
  const std::map<ReductionGroup, SumBlock>& blocks() const { return blocks_; }
  /// Returns the parameter that has this sum in its gradient.
  LocalId parameter_of(const GradientSum& sum) const {
    return mesh_.part().parameters[sum.parameter].value;
  }

  /// Returns whether the step's op adds all its outputs to accumulators itself.
  bool is_direct(const ComputeStep& step) const { return direct_.contains(step.outputs.front()); }
  /// Returns whether add() must be called once the value exists.
  bool needs_add(LocalId id) const { return sums_of_.contains(id) && !direct_.contains(id); }
  /// Emits the addition of a gradient to its sums. `buffer` holds the gradient of one microbatch.
  void add(LocalId gradient, int rank, std::uint32_t buffer);

  /// Accumulator as an output of the op that computes the gradient.
  struct Accumulator {
    std::uint32_t buffer = 0;
    /// False for the first microbatch: the op overwrites the buffer.
    bool holds_sum = false;
  };
  /// Returns the accumulator of a direct gradient. Call once per microbatch and rank.
  Accumulator write_directly(LocalId gradient, int rank);

 private:
  void find_sums();
  void find_direct_gradients(const std::set<LocalId>& sent);
  /// Places the sums in blocks. Returns their offsets in bytes.
  std::vector<std::uint64_t> place_sums();

  const MeshView mesh_;
  const MeshEmitters& emitters_;
  std::vector<GradientSum> sums_;
  std::map<ReductionGroup, SumBlock> blocks_;
  /// Indices into sums_, by gradient value.
  std::map<LocalId, std::vector<std::size_t>> sums_of_;
  /// Gradients that their op adds to the accumulator itself.
  std::set<LocalId> direct_;
  /// True once the first microbatch has written the sum, by sum and rank.
  std::vector<std::vector<bool>> started_;
};

}  // namespace weft::mesh

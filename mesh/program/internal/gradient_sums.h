#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mesh/program/internal/gradient_buckets.h"
#include "mesh/program/internal/mesh_emitters.h"
#include "mesh/program/internal/mesh_view.h"

namespace weft::mesh {

/// Persistent block of all sums that are kept for the same reduction.
struct SumBlock {
  std::string name;
  std::uint64_t bytes = 0;  ///< 0 if no sum is kept.
};

/// Sum over the microbatches of one term of a parameter's gradient, on every rank. The sum may
/// still be partial over mesh axes.
struct GradientSum {
  std::size_t parameter = 0;  ///< Index into MeshPartition::parameters.
  GradientTerm term;
  StageId stage;  ///< Stage that computes the term.
  ReductionGroup group;
  /// Accumulators, by rank. Empty if the sum is not kept: every microbatch's gradient is reduced by
  /// itself, and devices keep only their parts of the results.
  std::vector<std::uint32_t> buffers = {};
  std::uint64_t offset = 0;  ///< Byte at which the accumulator begins in its block.

  bool is_kept() const { return !buffers.empty(); }
};

/// Accumulators of one mesh's gradients: adds each microbatch's gradients during the actions.
///
/// If an op computes nothing but gradients, it adds its outputs to the accumulators itself. All
/// other gradients are made like any value, and added by an instruction of their own.
///
/// A sum is not kept if a reduce-scatter leaves each device a part of it, and if that happens in
/// the action that adds the first term: with one microbatch, or with GatherFrequency::kUse.
class GradientSums {
 public:
  /// Adds the accumulators' blocks to the programs. `sent`: values that leave the mesh.
  GradientSums(MeshView mesh, const MeshEmitters& emitters, const std::set<LocalId>& sent,
               int microbatches, const transfer::Topology& topology,
               const std::optional<transfer::Network>& network);

  /// Sums, ordered by parameter, then by term.
  const std::vector<GradientSum>& sums() const { return sums_; }
  /// Sums that are reduced together. Kept sums of a bucket are adjacent in their block.
  const std::vector<GradientBucket>& buckets() const { return buckets_; }
  const std::map<ReductionGroup, SumBlock>& blocks() const { return blocks_; }
  int microbatches() const { return microbatches_; }
  /// Returns the parameter that has this sum in its gradient.
  LocalId parameter_of(const GradientSum& sum) const {
    return mesh_.part().parameters[sum.parameter].value;
  }

  /// Returns whether the step's op adds all its outputs to accumulators itself.
  bool is_direct(const ComputeStep& step) const { return direct_.contains(step.outputs.front()); }
  /// Returns the sums that have the value as a term.
  const std::vector<std::size_t>& sums_of(LocalId id) const;
  /// Returns whether add() must be called once the value exists.
  bool needs_add(LocalId id) const {
    return !direct_.contains(id) && std::ranges::any_of(sums_of(id), [this](std::size_t sum) {
      return sums_[sum].is_kept();
    });
  }
  /// Emits the addition of a gradient to its kept sums. `buffer` holds the gradient of one
  /// microbatch.
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
  /// Returns whether every microbatch's gradient is reduced by itself.
  bool reduces_at_once(const GradientSum& sum) const;
  void find_direct_gradients(const std::set<LocalId>& sent);
  void plan_buckets(const transfer::Topology& topology,
                    const std::optional<transfer::Network>& network);
  /// Places the kept sums in blocks, and names the blocks.
  void place_sums();
  void name_buckets();

  const MeshView mesh_;
  const MeshEmitters& emitters_;
  const int microbatches_;
  std::vector<GradientSum> sums_;
  std::vector<std::size_t> completion_;  ///< Indices of all sums, in the order of completion.
  std::vector<GradientBucket> buckets_;
  std::map<ReductionGroup, SumBlock> blocks_;
  /// Indices into sums_, by gradient value.
  std::map<LocalId, std::vector<std::size_t>> sums_of_;
  /// Gradients that their op adds to the accumulator itself.
  std::set<LocalId> direct_;
  /// True once the first microbatch has written the sum, by sum and rank.
  std::vector<std::vector<bool>> started_;
};

}  // namespace weft::mesh

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
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
  StageId stage;                  ///< Stage that computes the term.
  Pass pass = Pass::kWeightGrad;  ///< Pass of the step that computes it.
  ReductionGroup group;
  /// Accumulators, by rank. Empty if the sum is not kept: the terms of every compound are reduced
  /// by themselves, and devices keep only their parts of the results.
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
/// the compound that adds the first term: if one compound adds all terms, or with
/// GatherFrequency::kUse. Then the members of the compound add their terms in the memory of the
/// first one.
class GradientSums {
 public:
  /// Adds the accumulators' blocks to the programs. `sent`: values that leave the mesh.
  GradientSums(MeshView mesh, const MeshEmitters& emitters, std::set<LocalId> sent,
               const Schedule& schedule, const transfer::Topology& topology,
               const std::optional<transfer::Network>& network);

  /// Sums, ordered by parameter, then by term.
  const std::vector<GradientSum>& sums() const { return sums_; }
  /// Sums that are reduced together. Kept sums of a bucket are adjacent in their block.
  const std::vector<GradientBucket>& buckets() const { return buckets_; }
  const std::map<ReductionGroup, SumBlock>& blocks() const { return blocks_; }
  int microbatches() const { return schedule_.microbatches; }
  /// Returns the parameter that has this sum in its gradient.
  LocalId parameter_of(const GradientSum& sum) const {
    return mesh_.part().parameters[sum.parameter].value;
  }

  /// Returns whether the op that computes the value adds it to its sum itself.
  bool is_direct(LocalId id) const { return direct_.contains(id); }
  /// Returns the sums that have the value as a term.
  const std::vector<std::size_t>& sums_of(LocalId id) const;
  /// Begins a compound of the mesh. If never called, each term is its own compound.
  void begin(std::span<const Action> members);
  /// Returns how many terms the current compound adds to a sum.
  int terms_of_compound(std::size_t sum) const { return terms_of_compound_[sum]; }
  /// Returns whether add() must be called once the value exists.
  bool needs_add(LocalId id) const { return !direct_.contains(id) && !sums_of(id).empty(); }
  /// Emits the addition of a gradient to its sums. `buffer` holds the gradient of one microbatch.
  void add(LocalId gradient, int rank, std::uint32_t buffer);
  /// Returns the buffer that holds the terms of the current compound, of a sum that is not kept.
  std::uint32_t of_compound(std::size_t sum, int rank) const { return of_compound_[sum].at(rank); }

  /// Accumulator as an output of the op that computes the gradient.
  struct Accumulator {
    std::uint32_t buffer = 0;
    /// False for the first term: the op overwrites the buffer.
    bool holds_sum = false;
  };
  /// Returns the accumulator of a direct gradient. Call once per microbatch and rank. `own`:
  /// returns the buffer of the microbatch's gradient.
  Accumulator write_directly(LocalId gradient, int rank, const std::function<std::uint32_t()>& own);

 private:
  void find_sums();
  /// Returns whether the terms of every compound are reduced by themselves.
  bool reduces_at_once(const GradientSum& sum) const;
  /// Returns whether one compound adds all terms of the sum.
  bool has_one_compound(const GradientSum& sum) const;
  void find_direct_gradients();
  /// Adds a term to a sum that is not kept.
  void add_in_compound(std::size_t sum, LocalId gradient, int rank, std::uint32_t buffer);
  void plan_buckets(const transfer::Topology& topology,
                    const std::optional<transfer::Network>& network);
  /// Places the kept sums in blocks, and names the blocks.
  void place_sums();
  void name_buckets();

  const MeshView mesh_;
  const MeshEmitters& emitters_;
  const Schedule& schedule_;
  std::vector<GradientSum> sums_;
  std::vector<std::size_t> completion_;  ///< Indices of all sums, in the order of completion.
  std::vector<GradientBucket> buckets_;
  std::map<ReductionGroup, SumBlock> blocks_;
  /// Indices into sums_, by gradient value.
  std::map<LocalId, std::vector<std::size_t>> sums_of_;
  std::set<LocalId> read_;    ///< Values that a step reads or that leave the mesh.
  std::set<LocalId> direct_;  ///< Gradients that their op adds to the accumulator itself.
  /// True once the first microbatch has written the sum, by sum and rank.
  std::vector<std::vector<bool>> started_;
  std::vector<int> terms_of_compound_;  ///< Number of terms, by sum.
  /// Buffers of sums that are not kept, by sum and rank; only those with a term of this compound.
  std::vector<std::map<int, std::uint32_t>> of_compound_;
};

}  // namespace weft::mesh

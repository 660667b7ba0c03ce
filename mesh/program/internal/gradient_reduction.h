#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "mesh/program/internal/gradient_sums.h"

namespace weft::mesh {

/// Reduction of one mesh's gradient sums among its devices, once per step.
///
/// Sums that are partial over some axes are all-reduced in place, or reduce-scattered if the
/// parameters are split further over these axes. A reduce-scatter goes through a bucket: sums are
/// copied into it in the order of the receiving ranks.
///
///   bucket on both ranks:  [ a for rank 0 | b for rank 0 | a for rank 1 | b for rank 1 ]
///   result on rank 1:      [ a for rank 1 | b for rank 1 ], each the sum of both ranks' terms
class GradientReduction {
 public:
  GradientReduction(MeshView mesh, const MeshEmitters& emitters, const GradientSums& sums,
                    const transfer::Topology& topology, Lowering lowering);

  /// Starts the reduction of these stages' gradients. Call after their last microbatch.
  void start(const std::set<StageId>& stages);
  /// Starts the remaining reductions, and waits for all.
  void finish();
  /// Returns the buffers of a whole sum, by rank, after finish(): in the parameter's spec if
  /// is_scattered(), else in the gradient's spec.
  const std::vector<std::uint32_t>& whole(std::size_t sum) const {
    return is_scattered(sum) ? scattered_[sum] : sums_.sums()[sum].buffers;
  }
  bool is_scattered(std::size_t sum) const { return !scattered_[sum].empty(); }

 private:
  /// Sums of one reduce-scatter.
  struct BucketContent {
    std::vector<std::size_t> sums;  ///< Indices into the sums.
    std::int64_t elements = 0;      ///< Elements of each device's part of all sums.
  };
  /// Result of a reduce-scatter that is still partial over other axes.
  struct PartialResult {
    std::string name;
    TensorType type;
    std::vector<int> axes;
    std::vector<std::uint32_t> buffers;  ///< Parts of the sum, by rank.
  };

  /// Returns the elements of each device's part of a sum, with padding.
  std::int64_t piece_elements(const GradientSum& sum) const;
  /// Returns the bytes of a bucket that every content fits into.
  std::uint64_t largest_bucket() const;
  void all_reduce(const ReductionGroup& group, const SumBlock& block,
                  const std::set<StageId>& stages);
  /// Divides the sums of the stages among reduce-scatters, each of at most a bucket's size.
  std::vector<BucketContent> plan_buckets(const ReductionGroup& group,
                                          const std::set<StageId>& stages) const;
  void reduce_scatter(const ReductionGroup& group, const BucketContent& content);
  /// Emits copies of the sums into the bucket, ordered by receiving rank. Adds the buffers of the
  /// result.
  void copy_into_bucket(const BucketContent& content, int rank, const std::vector<int>& ranks,
                        std::int32_t bucket, std::int32_t result);
  /// Starts transfers on all ranks. Returns their handles by rank.
  std::vector<std::uint32_t> start_transfers(const std::vector<std::uint32_t>& transfers,
                                             const std::vector<std::uint32_t>& sources,
                                             const std::vector<std::uint32_t>& destinations);

  const MeshView mesh_;
  const MeshEmitters& emitters_;
  const GradientSums& sums_;
  const transfer::Topology& topology_;
  const Lowering lowering_;
  std::set<StageId> unreduced_;  ///< Stages whose gradients are still partial.
  /// Two buckets alternate: handles of the last transfer from each, by rank.
  std::array<std::vector<std::uint32_t>, 2> in_flight_;
  const std::uint64_t bucket_bytes_;  ///< Size of each bucket.
  int num_scatters_ = 0;              ///< Number of reduce-scatters started so far.
  std::vector<PartialResult> still_partial_;
  /// Buffers of sums after a reduce-scatter, by sum and rank; empty for other sums.
  std::vector<std::vector<std::uint32_t>> scattered_;
};

}  // namespace weft::mesh

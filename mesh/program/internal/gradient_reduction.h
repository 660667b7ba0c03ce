#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mesh/program/internal/gradient_sums.h"

namespace weft::mesh {

/// Reduction of one mesh's gradients among its devices, bucket by bucket. A bucket's reduction
/// starts when the last term is added, and overlaps the rest of the backward. The program waits for
/// it when its memory is needed or its result is read.
///
/// Kept sums that are partial over some axes are all-reduced in place, or reduce-scattered if the
/// parameters are split further over these axes. Gradients that are not kept are reduce-scattered
/// in every compound; each device then adds up its parts. A reduce-scatter of several gradients
/// goes through a buffer, into which they are copied in the order of the receiving ranks.
///
///   buffer on both ranks:  [ a for rank 0 | b for rank 0 | a for rank 1 | b for rank 1 ]
///   result on rank 1:      [ a for rank 1 | b for rank 1 ], each the sum of both ranks' terms
class GradientReduction {
 public:
  /// `held`: stages whose reductions start only by start(), as a schedule names REDUCE_GRAD.
  GradientReduction(MeshView mesh, const MeshEmitters& emitters, const GradientSums& sums,
                    const transfer::Topology& topology, Lowering lowering,
                    std::set<StageId> held = {});

  /// Takes a value that a microbatch has computed on all devices of the mesh. If it is a gradient,
  /// it may complete buckets. Not for the spanning mesh, whose actors emit their actions one after
  /// the other: there finish() starts all.
  void computed(LocalId value, int microbatch);
  /// Starts the reductions of complete buckets. An op that computes their gradients cannot fuse
  /// with later ones any more.
  void start_complete();
  /// Starts the held reductions of a stage. Call after its last microbatch.
  void start(StageId stage);
  /// Waits for the reduction of a sum. Starts it if necessary.
  void end(std::size_t sum);
  /// Starts the remaining reductions, and waits for all.
  void finish();
  /// Returns whether the sum has its terms of all microbatches.
  bool is_complete(std::size_t sum) const { return terms_[sum] == sums_.microbatches(); }
  bool reduces(std::size_t sum) const { return bucket_of_[sum] < buckets_.size(); }
  /// Returns the buffers of a whole sum, by rank, after finish(): in the parameter's spec if
  /// is_scattered(), else in the gradient's spec.
  const std::vector<std::uint32_t>& whole(std::size_t sum) const {
    return is_scattered(sum) ? scattered_[sum] : sums_.sums()[sum].buffers;
  }
  bool is_scattered(std::size_t sum) const { return !scattered_[sum].empty(); }
  /// Returns the bytes that the reduce-scatter of a bucket holds until it ends; 0 if it is
  /// all-reduced in place.
  std::uint64_t buffer_bytes(std::size_t bucket) const {
    return is_scattered(buckets_[bucket]) ? bytes_of(buckets_[bucket]) : 0;
  }
  /// Returns the bytes that all reduce-scatters in flight may hold together.
  std::uint64_t max_buffer_bytes() const { return max_bytes_in_flight_; }

 private:
  using ByRank = std::vector<std::uint32_t>;
  /// A bucket, its transfers, and where its gradients are.
  struct Bucket {
    const GradientBucket* what = nullptr;
    /// True if the gradients of each compound are reduced by themselves.
    bool at_once = false;
    std::int64_t elements = 0;      ///< Elements of a device's part, with padding.
    std::uint64_t offset = 0;       ///< Byte at which the part begins in its block.
    std::size_t missing = 0;        ///< Sums that lack terms.
    bool has_started = false;       ///< True once its first reduction has started.
    bool is_over = false;           ///< True once its last one has.
    std::vector<ByRank> gradients;  ///< Buffers of the next reduction's gradients, by sum.
    ByRank transfers;               ///< Made on first use.
    ByRank results;                 ///< Sums of the device's parts, if reduce-scattered.
    ByRank all_reduces;             ///< Handles of the all-reduce of the sums or the results.
  };
  /// A started reduce-scatter.
  struct InFlight {
    std::size_t bucket = 0;
    ByRank handles;
    ByRank results;                          ///< Destinations of the transfer: a device's part.
    bool is_first = false, is_last = false;  ///< Among those of the bucket.
  };

  void add_buckets();
  /// Returns whether the last reduction starts only by start() or finish(). In safe mode, kept sums
  /// are: an action may not block before it has sent its results.
  bool is_held(const Bucket& bucket) const;
  bool is_scattered(const Bucket& bucket) const { return !bucket.what->group.scattered.empty(); }
  std::uint64_t bytes_of(const Bucket& bucket) const;
  /// `during`: the microbatch of the action that starts transfers; kNoMicrobatch for an action of
  /// the whole step.
  void start_bucket(std::size_t index, bool is_last, int during);
  void all_reduce(Bucket& bucket, int during);
  /// Sums buffers of type `type` over the axes, in place. Returns the transfers' handles by rank.
  ByRank all_reduce(const std::string& name, const TensorType& type, const std::vector<int>& axes,
                    const ByRank& sums, int during);
  void reduce_scatter(std::size_t index, bool is_last, int during);
  /// Adds the transfers and the parts of the sums on each device.
  void prepare_scatter(Bucket& bucket);
  /// Returns views of a rank's gradients that joined row by row give the order of the receiving
  /// ranks: each row is for one rank. Empty if the memory of the gradients does not allow that.
  std::vector<std::uint32_t> rows_for_receivers(const Bucket& bucket, int rank,
                                                const std::vector<int>& ranks);
  /// Returns the buffer that holds the gradients in the order of the receiving ranks.
  std::uint32_t ordered_gradients(const Bucket& bucket, int rank, const std::vector<int>& ranks);
  /// Waits for the oldest reduce-scatter and adds its result to the sums.
  void end_oldest(int during);
  /// Starts transfers on all ranks. Returns their handles by rank.
  ByRank start_transfers(const ByRank& transfers, int microbatch, const ByRank& sources,
                         const ByRank& destinations);

  const MeshView mesh_;
  const MeshEmitters& emitters_;
  const GradientSums& sums_;
  const transfer::Topology& topology_;
  const Lowering lowering_;
  const std::set<StageId> held_;
  std::vector<Bucket> buckets_;
  /// Bytes of all parts on a device. They depend on the parameters alone: the size of a block may
  /// not change when a run is planned again for other link rates.
  std::map<ReductionGroup, std::uint64_t> bytes_of_parts_;
  std::vector<std::size_t> bucket_of_;  ///< Index into buckets_, by sum; or that of no bucket.
  std::vector<int> terms_;              ///< Microbatches whose terms are added, by sum.
  std::vector<int> terms_of_compound_;  ///< Number of terms so far in this compound, by sum.
  /// Bucket whose reduction can start.
  struct Complete {
    std::size_t bucket = 0;
    bool is_last = false;  ///< True if all microbatches have added their terms.
    int microbatch = 0;    ///< Last microbatch that added a term.
  };
  std::vector<Complete> complete_;
  std::deque<InFlight> in_flight_;
  std::uint64_t bytes_in_flight_ = 0;
  /// Bytes of the largest layer: one layer moves while the next is computed.
  std::uint64_t max_bytes_in_flight_ = 0;
  /// Buffers of sums after a reduce-scatter, by sum and rank; empty for other sums.
  std::vector<ByRank> scattered_;
};

}  // namespace weft::mesh

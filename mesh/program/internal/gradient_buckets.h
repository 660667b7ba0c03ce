#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/strong_id.h"
#include "mesh/partition/partition.h"
#include "mesh/sharding/device_mesh.h"
#include "transfer/topology/network.h"
#include "transfer/topology/topology.h"

namespace weft::mesh {

/// Reduction that a group of gradient sums shares.
struct ReductionGroup {
  std::vector<int> axes;  ///< Axes over which the sums are partial after the last microbatch.
  /// Subset of `axes` that shard the parameters further, outermost first. Reduce-scatter over them
  /// leaves each device its own part of the sum.
  std::vector<int> scattered;
  friend auto operator<=>(const ReductionGroup&, const ReductionGroup&) = default;
};

/// Gradient sum, as far as buckets are concerned.
struct BucketItem {
  std::size_t sum = 0;  ///< Index of the sum.
  ReductionGroup group;
  StageId stage;
  int layer = 0;                ///< Block of the model.
  std::uint64_t bytes = 0;      ///< Bytes on one device, before the reduction.
  std::uint64_t min_bytes = 0;  ///< Bytes at which a bucket of this group is full.
};

/// Gradient sums that one collective reduces.
struct GradientBucket {
  ReductionGroup group;
  StageId stage;
  int layer = 0;
  std::vector<std::size_t> sums;  ///< Indices, in the order in which the backward completes them.
  std::string name = {};          ///< Name of its transfer.
};

/// Divides gradients among buckets, as PyTorch DDP does (arXiv 2006.15704, section 3.2). `items`:
/// in the order in which the backward completes them; with an empty group, they need no reduction
/// and get no bucket.
///
/// A bucket takes gradients of one layer until it is full. A smaller bucket takes the latency of a
/// collective for few bytes; a larger one starts later. So a bias shares the bucket of a matrix.
std::vector<GradientBucket> plan_gradient_buckets(const std::vector<BucketItem>& items);

/// Returns the bytes at which a bucket is full that is reduced over these axes: those that the
/// slowest link between the devices carries in 10 latencies. 4 MiB inside a host and where
/// `network` is absent.
std::uint64_t full_bucket_bytes(const DeviceMesh& mesh, const std::vector<int>& axes,
                                const transfer::Topology& topology,
                                const std::optional<transfer::Network>& network);

}  // namespace weft::mesh

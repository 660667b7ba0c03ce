#include "mesh/program/internal/gradient_buckets.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "mesh/sharding/axis_groups.h"

namespace weft::mesh {
namespace {

/// Latencies of a link in which it carries a full bucket.
constexpr double kBucketLatencies = 10;
/// Full bucket without a link whose rate is known.
constexpr std::uint64_t kDefaultBucketBytes = 4 << 20;

}  // namespace

std::vector<GradientBucket> plan_gradient_buckets(const std::vector<BucketItem>& items) {
  struct Open {
    std::size_t bucket = 0;  ///< Index into the result.
    std::uint64_t bytes = 0;
  };
  std::vector<GradientBucket> buckets;
  std::map<std::pair<ReductionGroup, StageId>, Open> open;
  for (const BucketItem& item : items) {
    if (item.group.axes.empty()) continue;
    const auto key = std::pair(item.group, item.stage);
    auto at = open.find(key);
    if (at == open.end() || buckets[at->second.bucket].layer != item.layer ||
        at->second.bytes >= item.min_bytes) {
      at = open.insert_or_assign(key, Open{buckets.size()}).first;
      buckets.push_back({item.group, item.stage, item.layer, {}, {}});
    }
    buckets[at->second.bucket].sums.push_back(item.sum);
    at->second.bytes += item.bytes;
  }
  return buckets;
}

std::uint64_t full_bucket_bytes(const DeviceMesh& mesh, const std::vector<int>& axes,
                                const transfer::Topology& topology,
                                const std::optional<transfer::Network>& network) {
  if (!network) return kDefaultBucketBytes;
  double slowest = std::numeric_limits<double>::infinity();
  for (const std::vector<int>& group : groups_over(mesh, axes)) {
    std::set<transfer::HostId> hosts;
    for (const int rank : group) hosts.insert(topology.host_of(mesh.devices()[rank]));
    if (hosts.size() == 1) continue;
    for (const transfer::HostId host : hosts)
      slowest = std::min({slowest, network->host(host).egress(), network->host(host).ingress()});
  }
  if (slowest == std::numeric_limits<double>::infinity()) return kDefaultBucketBytes;
  return static_cast<std::uint64_t>(kBucketLatencies * network->hop_seconds * slowest);
}

}  // namespace weft::mesh

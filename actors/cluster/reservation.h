#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/spawn_options.h"
#include "actors/head/cluster_messages.h"

namespace weft::actors {

/// Bundles of resources that the head keeps for this driver: room for meshes to come.
///
///   auto room = cluster.reserve("room", {{.devices = 1}, {.devices = 1}}, spread());
///   auto pool = cluster.spawn<Worker>("pool", {{"worker", 2}},
///                                     {.place = room.place(), .needs = {.devices = 1}});
///
/// Released by its destructor, and when the driver ends; meshes keep what they have of it until
/// they end, but their ranks cannot be restarted after that. Keep it as long as its meshes.
/// Survives a restart of the head. A driver that was started again gets it by reserving the same
/// bundles under the same name. Must not outlive its Cluster. One thread at a time.
class Reservation final {
 public:
  /// `release`: called once, unless it is empty. See Cluster::reserve().
  Reservation(ReservedBundles bundles, std::function<void(const MeshKey&)> release)
      : bundles_(std::move(bundles)), release_(std::move(release)) {}
  ~Reservation() { release(); }
  Reservation(Reservation&& other) noexcept
      : bundles_(std::move(other.bundles_)), release_(std::exchange(other.release_, {})) {}
  Reservation& operator=(Reservation&& other) noexcept {
    if (this == &other) return *this;
    release();
    bundles_ = std::move(other.bundles_);
    release_ = std::exchange(other.release_, {});
    return *this;
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  const std::string& name() const { return bundles_.key.name; }
  /// Returns the number of bundles.
  std::size_t size() const { return bundles_.places.size(); }
  /// Returns the host of each bundle when it was granted. A bundle moves when its host is lost.
  std::vector<std::string> hosts() const {
    std::vector<std::string> names;
    for (const BundlePlace& place : bundles_.places) names.push_back(place.host);
    return names;
  }
  /// Returns the placement of a mesh in the bundles: rank i in bundle `first` + i. A mesh may have
  /// fewer ranks than there are bundles. Several meshes may share a bundle, as far as it has room.
  MeshPlacement place(std::uint32_t first = 0) const {
    MeshPlacement placement;
    placement.reservation = bundles_.key;
    placement.first_bundle = first;
    return placement;
  }
  /// Releases the bundles now. Does nothing after that. Does not throw.
  void release() {
    if (const auto call = std::exchange(release_, {})) call(bundles_.key);
  }

 private:
  ReservedBundles bundles_;
  std::function<void(const MeshKey&)> release_;
};

}  // namespace weft::actors

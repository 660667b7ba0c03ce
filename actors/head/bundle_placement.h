#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/agent/resources.h"

namespace weft::actors {

/// Input of place_bundles(): bundles of resources, and the room of hosts. A bundle is what one rank
/// of a mesh needs, or one part of a reservation. Amounts have the same order of resources
/// everywhere.
struct BundlesToPlace {
  struct Room {
    std::vector<std::int64_t> free;
    double load = 0;           ///< Largest share of a resource that is in use, 0 to 1.
    std::size_t num_uses = 0;  ///< Number of ranks and bundles on the host.
    bool may_take = true;      ///< False if only bundles that are kept may be on the host.
  };
  std::vector<std::vector<std::int64_t>> needs;  ///< By bundle.
  std::vector<Room> hosts;                       ///< In the order in which kPack fills them.
  PlacementStrategy strategy = PlacementStrategy::kPack;  ///< Not kDefault.
  /// Host of each bundle that has its place, which it keeps; `Room::free` lacks its amounts. Empty:
  /// none has one.
  std::vector<std::optional<std::size_t>> kept = {};
  /// Host that a bundle prefers, as it was there last. Empty: none.
  std::vector<std::optional<std::size_t>> last = {};
};

/// Result of place_bundles().
struct PlacedBundles {
  enum class Verdict : std::uint8_t {
    kPlaced,
    kImpossible,  ///< No placement exists.
    kUnknown,     ///< The search was given up: kPack or kSpread of bundles of several sizes.
  };
  Verdict verdict = Verdict::kImpossible;
  std::vector<std::size_t> hosts;  ///< Host of each bundle, if placed.
  std::size_t num_placed = 0;  ///< Bundles with a place. If not all: those that a try could place.
};

/// Places all bundles or none, by the strategy. Pure. Finds a placement if one exists, but for
/// kUnknown.
///
/// kPack takes the first host with room. kSpread takes the host with the fewest of these bundles,
/// then the lowest load, then the fewest uses. kStrictPack uses one host. kStrictSpread uses
/// another host for each bundle, and prefers hosts as kSpread does.
PlacedBundles place_bundles(const BundlesToPlace& problem);

}  // namespace weft::actors

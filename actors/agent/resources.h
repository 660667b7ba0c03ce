#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/codec/codec.h"

namespace weft::actors {

/// Resources of a host, or those that one actor needs. A value.
///
///   cluster.spawn<Worker>("pool", {{"worker", 8}}, {.needs = {.cpus = 0.5, .memory = 1 << 30}});
struct Resources {
  std::uint32_t devices = 0;
  double cpus = 0;                            ///< Processors. Fractions are counted in thousandths.
  std::uint64_t memory = 0;                   ///< Bytes.
  std::map<std::string, double> custom = {};  ///< Other resources by name: {"licence", 2}.
  friend bool operator==(const Resources&, const Resources&) = default;
  static constexpr auto fields =
      weft::fields(&Resources::devices, &Resources::cpus, &Resources::memory, &Resources::custom);
};

/// Offer of a host besides its devices. A value.
struct HostCapacity {
  double cpus = 0;                                 ///< 0: the processors that its agent may use.
  std::uint64_t memory = 0;                        ///< Bytes. 0: the memory of its machine.
  std::map<std::string, double> custom = {};       ///< Other resources by name: {"licence", 2}.
  std::map<std::string, std::string> labels = {};  ///< {"zone", "a"}
  friend bool operator==(const HostCapacity&, const HostCapacity&) = default;
  static constexpr auto fields = weft::fields(&HostCapacity::cpus, &HostCapacity::memory,
                                              &HostCapacity::custom, &HostCapacity::labels);
};

/// Process in which an actor without a device runs.
enum class ActorProcess : std::uint8_t {
  kShared,  ///< The process of its run on a host, which it shares with other actors.
  kOwn,     ///< A process of its own.
};

/// Rule by which the ranks of a mesh, or the bundles of a reservation, are spread over hosts.
enum class PlacementStrategy : std::uint8_t {
  kDefault,       ///< kPack for ranks with devices, else kSpread.
  kPack,          ///< Fills one host after the other.
  kSpread,        ///< Takes hosts in turn.
  kStrictPack,    ///< Uses one host only.
  kStrictSpread,  ///< Uses another host for each rank.
};

}  // namespace weft::actors

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/head/cluster_messages.h"
#include "actors/message/ids.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Actors to spawn, and everything that their owner needs to spawn them, also again. Sent to owners
/// in other processes, and saved by the head. Limits as in SpawnOptions.
struct SpawnDescription {
  /// Name, shape, placement, executable and environment. An empty `binary`: that of the owner.
  MeshRequest mesh;
  InterfaceVersion interface;
  std::vector<std::byte> arguments;  ///< Encoded arguments of the constructor.
  std::uint8_t on_failure = 0;       ///< An OnFailure.
  std::optional<std::uint64_t> restarts = {};
  std::int64_t within_ns = 0;
  std::uint8_t if_exists = 0;  ///< An IfExists.
  std::uint8_t lifetime = 0;   ///< A Lifetime.

  const std::string& name() const { return mesh.mesh; }
  static constexpr auto fields = weft::fields(
      &SpawnDescription::mesh, &SpawnDescription::interface, &SpawnDescription::arguments,
      &SpawnDescription::on_failure, &SpawnDescription::restarts, &SpawnDescription::within_ns,
      &SpawnDescription::if_exists, &SpawnDescription::lifetime);
};

}  // namespace weft::actors

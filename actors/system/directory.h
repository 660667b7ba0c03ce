#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/message/ids.h"
#include "core/codec/codec.h"
#include "core/tensor/mesh_shape.h"

namespace weft::actors {

/// Actors that were spawned under a name: a mesh, or one actor, whose shape has no axes.
struct NamedActors {
  std::string name;
  InterfaceVersion interface;
  MeshShape shape;
  std::vector<ActorAddress> addresses;  ///< By rank.
  std::set<std::uint32_t> ended = {};   ///< Ranks that have ended and are not restarted.
  static constexpr auto fields =
      weft::fields(&NamedActors::name, &NamedActors::interface, &NamedActors::shape,
                   &NamedActors::addresses, &NamedActors::ended);
};

/// Actor of a process that finds named actors of its cluster: System::find() calls it. Hosted under
/// kDirectoryName by processes that have a head.
class Directory {
 public:
  virtual ~Directory() = default;
  /// Returns the actors of that name. Waits for them until shortly before the deadline of the call;
  /// then throws Error(kNotFound) with the nearest names.
  virtual task<NamedActors> find(std::string name) = 0;
  /// Like find(), but asks once and does not wait for the actors.
  virtual task<NamedActors> find_now(std::string name) = 0;
  /// Returns where an actor is now whose owner does not answer. Waits while its restart is under
  /// way. Throws Error(kNotFound) if nobody restarts it.
  virtual task<ActorAddress> locate(ActorAddress lost) = 0;

  static constexpr auto endpoints = interface<"weft.directory", 1>(
      on<&Directory::find>("find", urgent), on<&Directory::find_now>("find_now", urgent),
      on<&Directory::locate>("locate", urgent));
};
inline constexpr const char* kDirectoryName = "directory";

/// Name by which a process hosts its store of objects (mesh/objects).
inline constexpr const char* kObjectStoreName = "objects";

}  // namespace weft::actors

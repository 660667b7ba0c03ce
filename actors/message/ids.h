#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "actors/net/address.h"
#include "core/base/strong_id.h"

namespace weft::actors {

/// Id of one run of one process. Random, chosen when its System starts, never reused: a restarted
/// process gets a new one.
using ProcessId = StrongId<struct ProcessTag, std::uint64_t>;

/// Id of an actor within its process; never reused there. A well-known actor's id is made from its
/// name.
using ActorId = StrongId<struct ActorTag, std::uint64_t>;

/// Returns the id of the actor hosted as `name`, so that callers need no look-up.
ActorId actor_id_of(std::string_view name);
/// Returns true for ids that are made from names. Other actors never have them.
bool is_named(ActorId actor);

/// Reference to a process: id, name and address. A plain value; keeps nothing alive.
struct ProcessRef {
  ProcessId id;
  std::string name;  ///< Display name: "worker0/device1".
  Address address;   ///< Listening address; port 0 if it does not listen.

  static constexpr auto fields =
      weft::fields(&ProcessRef::id, &ProcessRef::name, &ProcessRef::address);
  friend bool operator==(const ProcessRef&, const ProcessRef&) = default;
};

/// Interface of a class of actors, as one program knows it. Equal if both programs declare the same
/// methods, arguments and results.
struct InterfaceVersion {
  std::string name;
  std::uint32_t version = 0;
  std::uint64_t fingerprint = 0;

  static constexpr auto fields = weft::fields(&InterfaceVersion::name, &InterfaceVersion::version,
                                              &InterfaceVersion::fingerprint);
  friend bool operator==(const InterfaceVersion&, const InterfaceVersion&) = default;
};

/// Stands for all actors of a process where one could be named.
inline constexpr ActorId kNoActor{std::numeric_limits<std::uint64_t>::max()};

/// Returns the id in the address of an actor that could not be adopted. Made from its label: a
/// process may have lost several.
ActorId lost_actor_id(std::string_view label);
/// Returns true for ids of lost_actor_id().
constexpr bool is_lost_actor(ActorId actor) { return actor.value() >> 62 == 1; }

/// Reference to an actor, as sent in messages. System::ref() makes it callable.
struct ActorAddress {
  ProcessRef process;
  ActorId actor;
  std::string label;  ///< Display name: "front[data=0,tensor=1]".
  /// Process that restarts the actor after a death and knows where it is now; id 0: none.
  ProcessRef owner = {};

  static constexpr auto fields = weft::fields(&ActorAddress::process, &ActorAddress::actor,
                                              &ActorAddress::label, &ActorAddress::owner);
  friend bool operator==(const ActorAddress&, const ActorAddress&) = default;
};

}  // namespace weft::actors

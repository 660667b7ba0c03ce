#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "actors/net/address.h"
#include "core/base/strong_id.h"

namespace weft::actors {

/// One run of one process. Random, chosen when its System starts, never used again: a restarted
/// process is another one.
using ProcessId = StrongId<struct ProcessTag, std::uint64_t>;

/// An actor within its process; never used again there. Actors with a well-known name have an id
/// made from it.
using ActorId = StrongId<struct ActorTag, std::uint64_t>;

/// The id of the actor hosted as `name`: callers need no look-up.
ActorId named_actor(std::string_view name);

/// A process as others know it. A plain value; keeps nothing alive.
struct ProcessRef {
  ProcessId id;
  std::string name;  ///< For people: "worker0/device1".
  Address address;   ///< Where it listens; port 0 if it does not.

  static constexpr auto fields =
      weft::fields(&ProcessRef::id, &ProcessRef::name, &ProcessRef::address);
  friend bool operator==(const ProcessRef&, const ProcessRef&) = default;
};

/// An actor as others know it: what travels in messages. System::ref() makes it callable.
struct ActorAddress {
  ProcessRef process;
  ActorId actor;
  std::string label;  ///< For people: "front[data=0,tensor=1]".

  static constexpr auto fields =
      weft::fields(&ActorAddress::process, &ActorAddress::actor, &ActorAddress::label);
  friend bool operator==(const ActorAddress&, const ActorAddress&) = default;
};

}  // namespace weft::actors

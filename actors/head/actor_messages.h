#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/message/ids.h"
#include "actors/system/directory.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Name of the owner of actors that outlive runs: "cluster/hits".
inline constexpr const char* kKeeperName = "cluster";

/// Changes of an owner's names.
struct PublishActors {
  std::vector<NamedActors> actors;  ///< Names that are new, or whose actors have changed.
  /// Names whose actors have ended. A name that is also in `actors` belongs to others now.
  std::vector<std::string> withdrawn;
  /// True if `actors` has all names. Others end, unless the owner has a mesh of that name.
  bool all = false;
  static constexpr auto fields =
      weft::fields(&PublishActors::actors, &PublishActors::withdrawn, &PublishActors::all);
};

/// Request for the actors of a name. "hits": of the caller's run, or else of the cluster.
/// "quickstart/hits", "12/hits", "cluster/hits": of a run by its name or number, or of the cluster.
struct FindActors {
  std::string name;
  std::int64_t within_ns = 0;  ///< Time for which the head waits for them.
  static constexpr auto fields = weft::fields(&FindActors::name, &FindActors::within_ns);
};

/// Request for the present address of an actor.
struct LocateActor {
  ActorAddress lost;
  std::int64_t within_ns = 0;  ///< Time for which the head waits for the end of a restart.
  static constexpr auto fields = weft::fields(&LocateActor::lost, &LocateActor::within_ns);
};

/// Named actor, as `weft actors` prints it.
struct ActorStatus {
  std::string run;        ///< "quickstart"; empty: it belongs to the cluster.
  std::string label;      ///< "pool[worker=3]"
  std::string interface;  ///< Name of its class's interface.
  std::string host;       ///< Empty if its process is not known.
  std::int64_t pid = 0;
  std::string state;  ///< "running", "dead", "ended"; else the state of its mesh.
  ActorAddress address;
  static constexpr auto fields = weft::fields(
      &ActorStatus::run, &ActorStatus::label, &ActorStatus::interface, &ActorStatus::host,
      &ActorStatus::pid, &ActorStatus::state, &ActorStatus::address);
};

}  // namespace weft::actors

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/head/actor_messages.h"
#include "actors/head/run_messages.h"

namespace weft::apps {

/// Name of an actor or a mesh as users type it: "hits", "pool[3]", "quickstart/pool".
struct ActorName {
  std::string run;    ///< Name or number of a run; empty: any, or none.
  std::string label;  ///< "pool[3]", "pool[worker=3]", or the name of a mesh.

  static ActorName of(const std::string& text);
  friend bool operator==(const ActorName&, const ActorName&) = default;
};

/// Returns "quickstart/pool[worker=3]"; "hits" if the actor belongs to the cluster.
std::string full_name(const actors::ActorStatus& actor);

/// Finds the actors that `wanted` names. Without a run, those of the cluster come before those of
/// runs; "cluster/hits" belongs to the cluster. The order stays.
std::vector<actors::ActorStatus> find_actors(const std::vector<actors::ActorStatus>& actors,
                                             const std::vector<actors::RunRecord>& runs,
                                             const std::string& wanted);

/// Finds the run of the actors that `wanted` names. The result has the run's name, or "" for the
/// cluster. Returns nullopt if there are no such actors. Throws Error(kInvalidArgument) if several
/// runs have them.
std::optional<ActorName> find_run_of_actors(const std::vector<actors::ActorStatus>& actors,
                                            const std::vector<actors::RunRecord>& runs,
                                            const std::string& wanted);

/// Returns the full names of all actors and meshes, as candidates for the nearest name.
std::vector<std::string> known_actor_names(const std::vector<actors::ActorStatus>& actors);

}  // namespace weft::apps

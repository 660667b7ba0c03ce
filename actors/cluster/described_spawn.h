#pragma once

#include "actors/cluster/spawn_options.h"
#include "actors/head/spawn_description.h"
#include "actors/system/system.h"

namespace weft::actors {

/// Describes a spawn for an owner in another process. `decide` of the options does not travel. The
/// description names an executable only if `place` does.
SpawnDescription describe_spawn(const SpawnedActors& wanted, const SpawnOptions& options);

/// Returns the options of a described spawn.
SpawnOptions options_of(const SpawnDescription& actors);
/// Returns the actors of a described spawn, without addresses.
SpawnedActors wanted_actors(const SpawnDescription& actors);

}  // namespace weft::actors

#pragma once

#include <string>

#include "actors/head/actor_directory.h"
#include "actors/head/head_config.h"
#include "actors/head/host_table.h"
#include "actors/head/mesh_table.h"
#include "actors/head/owner_table.h"
#include "actors/head/reservations.h"
#include "actors/head/state_store.h"

namespace weft::actors {

/// Fills the tables with the hosts, owners, reservations, meshes and named actors of the saved
/// state. Throws kDataLoss if it is damaged.
void read_saved_members(const HeadConfig& config, HostTable& hosts, OwnerTable& owners,
                        Reservations& reservations, MeshTable& meshes, ActorDirectory& directory);

/// Returns the event of a head that starts: its address, term, and the members that it waits for.
std::string start_text(const HeadConfig& config, const StateStore& store, const HostTable& hosts,
                       const OwnerTable& owners);

}  // namespace weft::actors

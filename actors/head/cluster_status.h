#pragma once

#include "actors/head/cluster_messages.h"
#include "actors/head/head_config.h"
#include "actors/head/host_table.h"
#include "actors/head/mesh_table.h"
#include "actors/head/owner_table.h"
#include "actors/head/reservations.h"
#include "actors/head/state_store.h"

namespace weft::actors {

/// Returns hosts, meshes, owners, reservations and the newest events as they are now. Leaves
/// `up_seconds` unset.
ClusterStatus cluster_status(const HeadConfig& config, StateStore& store, const HostTable& hosts,
                             const MeshTable& meshes, const OwnerTable& owners,
                             const Reservations& reservations);

}  // namespace weft::actors

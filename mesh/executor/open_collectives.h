#pragma once

#include <vector>

#include "actors/system/actor_mesh.h"
#include "mesh/executor/device_actor.h"
#include "mesh/plan/training_plan.h"
#include "transfer/nccl/communicator_cache.h"

namespace weft::mesh {

/// Device actors by mesh.
using DeviceActorMeshes = std::vector<actors::ActorMesh<DeviceActor>>;

/// Asks all devices of all meshes for their places. Returns them by DeviceId.
std::vector<transfer::DeviceCapabilities> collect_device_places(const DeviceActorMeshes& meshes);

/// Creates on all devices the communicators that the plan needs and that do not exist yet. Destroys
/// those beyond the limit. Call before the plan's programs are installed.
void open_communicators(const DeviceActorMeshes& meshes, const TrainingPlan& plan,
                        transfer::CommunicatorCache& ledger);

}  // namespace weft::mesh

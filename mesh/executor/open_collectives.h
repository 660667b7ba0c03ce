#pragma once

#include <vector>

#include "actors/system/actor_mesh.h"
#include "mesh/executor/device_actor.h"
#include "mesh/plan/training_plan.h"
#include "transfer/nccl/communicator_ledger.h"

namespace weft::mesh {

/// Device actors by mesh.
using ActorMeshes = std::vector<actors::ActorMesh<DeviceActor>>;

/// Asks all devices of all meshes for their places. Returns them by DeviceId.
std::vector<transfer::DevicePlace> ask_places(const ActorMeshes& meshes);

/// Creates on all devices the communicators that the plan needs and that do not exist yet. Destroys
/// those beyond the limit. Call before the plan's programs are installed.
void open_communicators(const ActorMeshes& meshes, const TrainingPlan& plan,
                        transfer::CommunicatorLedger& ledger);

}  // namespace weft::mesh

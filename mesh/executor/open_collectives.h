#pragma once

#include <vector>

#include "actors/system/actor_mesh.h"
#include "mesh/executor/device_actor.h"
#include "mesh/plan/training_plan.h"
#include "transfer/nccl/communicator_ledger.h"

namespace weft::mesh {

/// The device actors of every mesh of a run.
using ActorMeshes = std::vector<actors::ActorMesh<DeviceActor>>;

/// Where the devices of all meshes compute, by DeviceId.
std::vector<transfer::DevicePlace> ask_places(const ActorMeshes& meshes);

/// Creates the communicators that a plan needs and that are not there, on all devices at once; ends
/// those that would be too many. Before its programs are installed.
void open_communicators(const ActorMeshes& meshes, const TrainingPlan& plan,
                        transfer::CommunicatorLedger& ledger);

}  // namespace weft::mesh

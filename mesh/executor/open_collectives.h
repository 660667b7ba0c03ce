#pragma once

#include <chrono>
#include <vector>

#include "actors/system/actor_mesh.h"
#include "core/base/clock.h"
#include "mesh/executor/device_actor.h"
#include "mesh/plan/training_plan.h"
#include "transfer/nccl/communicator_ledger.h"

namespace weft::mesh {

/// For all that opening a library and creating communicators takes, a second or two each.
inline constexpr Nanoseconds kOpenCollectivesWithin = std::chrono::minutes(3);

/// Where the devices of all meshes compute, by DeviceId.
template <typename Actor>
std::vector<transfer::DevicePlace> ask_places(std::vector<actors::ActorMesh<Actor>>& meshes) {
  std::vector<transfer::DevicePlace> places;
  for (auto& mesh : meshes) {
    for (transfer::DevicePlace& place :
         mesh.within(kOpenCollectivesWithin).template call<&Actor::place>().get())
      places.push_back(std::move(place));
  }
  return places;
}

/// Creates the communicators that a plan needs and that are not there, on all devices at once; ends
/// those that would be too many. Before its programs are installed.
template <typename Actor>
void open_communicators(std::vector<actors::ActorMesh<Actor>>& meshes, const TrainingPlan& plan,
                        transfer::CommunicatorLedger& ledger) {
  if (plan.collectives.groups.empty()) return;
  CommunicatorSetup setup;
  setup.changes = ledger.need(plan.collectives.groups);
  if (setup.changes.create.empty() && setup.changes.destroy.empty()) return;
  for (auto& mesh : meshes) {
    for (std::vector<transfer::CommunicatorId>& ids :
         mesh.within(kOpenCollectivesWithin)
             .template call<&Actor::make_ids>(setup.changes.create)
             .get()) {
      for (transfer::CommunicatorId& id : ids) setup.ids.push_back(std::move(id));
    }
  }
  // Their members wait for each other, so all are asked before any answer is awaited.
  const auto open = [&](auto& mesh) {
    return mesh.within(kOpenCollectivesWithin).template call<&Actor::open_communicators>(setup);
  };
  std::vector<decltype(open(meshes.front()))> pending;
  for (auto& mesh : meshes) pending.push_back(open(mesh));
  for (auto& future : pending) future.get();
}

}  // namespace weft::mesh

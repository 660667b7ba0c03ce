#pragma once

#include <vector>

#include "actors/system/actor_mesh.h"
#include "mesh/device_actor/device_actor.h"
#include "mesh/plan/training_plan.h"
#include "transfer/device_collective/communicator_ledger.h"

namespace weft::mesh {

/// Where the devices of all meshes compute, by DeviceId.
template <typename Actor>
std::vector<transfer::DevicePlace> ask_places(std::vector<actors::ActorMesh<Actor>>& meshes) {
  std::vector<transfer::DevicePlace> places;
  for (auto& mesh : meshes) {
    for (transfer::DevicePlace& place : mesh.template call<&Actor::place>().get()) places.push_back(std::move(place));
  }
  return places;
}

/// Creates the communicators that a plan needs and that are not there, on all devices at once; ends those that would be too many.
/// Before its programs are installed.
template <typename Actor>
void open_communicators(std::vector<actors::ActorMesh<Actor>>& meshes, const TrainingPlan& plan,
                        transfer::CommunicatorLedger& ledger) {
  if (plan.collectives.groups.empty()) return;
  CommunicatorSetup setup;
  setup.changes = ledger.need(plan.collectives.groups);
  if (setup.changes.create.empty() && setup.changes.destroy.empty()) return;
  for (auto& mesh : meshes) {
    for (std::vector<transfer::CommunicatorId>& ids : mesh.template call<&Actor::make_ids>(setup.changes.create).get()) {
      for (transfer::CommunicatorId& id : ids) setup.ids.push_back(std::move(id));
    }
  }
  // Their members wait for each other, so all are asked before any answer is awaited.
  std::vector<decltype(meshes.front().template call<&Actor::open_communicators>(setup))> pending;
  for (auto& mesh : meshes) pending.push_back(mesh.template call<&Actor::open_communicators>(setup));
  for (auto& future : pending) future.get();
}

}  // namespace weft::mesh

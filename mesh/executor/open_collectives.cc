#include "mesh/executor/open_collectives.h"

#include <chrono>
#include <utility>

#include "actors/system/system.h"
#include "core/base/clock.h"

namespace weft::mesh {
namespace {

/// Time limit for opening a library and creating communicators, a second or two each.
constexpr Nanoseconds kOpenCollectivesWithin = std::chrono::minutes(3);

}  // namespace

std::vector<transfer::DevicePlace> ask_places(const ActorMeshes& meshes) {
  std::vector<transfer::DevicePlace> places;
  for (const auto& mesh : meshes) {
    for (transfer::DevicePlace& place :
         mesh.within(kOpenCollectivesWithin).call<&DeviceActor::place>().get())
      places.push_back(std::move(place));
  }
  return places;
}

void open_communicators(const ActorMeshes& meshes, const TrainingPlan& plan,
                        transfer::CommunicatorLedger& ledger) {
  if (plan.collectives.groups.empty()) return;
  CommunicatorSetup setup;
  setup.changes = ledger.need(plan.collectives.groups);
  if (setup.changes.create.empty() && setup.changes.destroy.empty()) return;
  for (const auto& mesh : meshes) {
    for (std::vector<transfer::CommunicatorId>& ids :
         mesh.within(kOpenCollectivesWithin)
             .call<&DeviceActor::make_ids>(setup.changes.create)
             .get()) {
      for (transfer::CommunicatorId& id : ids) setup.ids.push_back(std::move(id));
    }
  }
  // Members wait for each other, so all meshes are called before any answer is awaited.
  std::vector<actors::Future<void>> pending;
  for (const auto& mesh : meshes)
    pending.push_back(
        mesh.within(kOpenCollectivesWithin).call<&DeviceActor::open_communicators>(setup));
  for (auto& future : pending) future.get();
}

}  // namespace weft::mesh

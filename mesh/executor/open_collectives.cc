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

std::vector<transfer::DeviceCapabilities> collect_device_places(const DeviceActorMeshes& meshes) {
  std::vector<transfer::DeviceCapabilities> places;
  for (const auto& mesh : meshes) {
    for (transfer::DeviceCapabilities& place :
         mesh.within(kOpenCollectivesWithin).call<&DeviceActor::place>().get())
      places.push_back(std::move(place));
  }
  return places;
}

void open_communicators(const DeviceActorMeshes& meshes, const TrainingPlan& plan,
                        transfer::CommunicatorCache& ledger) {
  if (plan.collectives.groups.empty()) return;
  CommunicatorSetup setup;
  setup.changes = ledger.ensure(plan.collectives.groups);
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

// Reservations of an owner.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "actors/cluster/cluster.h"

namespace weft::actors {
namespace {

constexpr Nanoseconds kHeadReplyWithin = std::chrono::seconds(5);
/// Time for which the head may be away while a reservation waits.
constexpr Nanoseconds kHeadAwayAtMost = std::chrono::seconds(60);
constexpr Nanoseconds kAskWhetherToGoOnEvery = std::chrono::milliseconds(50);
/// Name of the reservation of a run's meshes.
constexpr const char* kMeshesName = "run-meshes";

}  // namespace

Reservation Cluster::reserve(const std::string& name, std::vector<Resources> bundles,
                             const MeshPlacement& where, Nanoseconds within) {
  failures_.check_spawn();
  if (!where.places.empty() || !where.reservation.name.empty())
    throw_error(
        ErrorCode::kInvalidArgument,
        "reservation '{}': the head chooses the devices of a reservation; give hosts, labels "
        "or a strategy",
        name);
  return reserve_bundles({name, std::move(bundles), where.hosts, where.strategy, where.labels},
                         within, {});
}

Reservation Cluster::reserve_meshes(std::vector<WantedMesh> meshes, std::vector<std::string> spares,
                                    const std::function<bool()>& goes_on) {
  failures_.check_spawn();
  ReservationRequest request{kMeshesName, {}};
  for (const WantedMesh& mesh : meshes)
    request.bundles.resize(request.bundles.size() + static_cast<std::size_t>(mesh.shape.size()),
                           Resources{.devices = 1});
  request.meshes = std::move(meshes);
  request.spares = std::move(spares);
  return reserve_bundles(std::move(request), kNoDeadline, goes_on);
}

Reservation Cluster::reserve_bundles(ReservationRequest request, Nanoseconds within,
                                     const std::function<bool()>& goes_on) {
  within = std::clamp(within, Nanoseconds::zero(), ReservationRequest::kLongestWait);
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + within;
  const auto reserved = head_.ask<std::optional<ReservedBundles>>(
      {within + kHeadReplyWithin, kHeadAwayAtMost, goes_on},
      [&](const ActorRef<Head>& head, std::uint64_t losses) -> std::optional<ReservedBundles> {
        request.within_ns =
            std::max<Nanoseconds>(give_up - clock.now(), Nanoseconds::zero()).count();
        auto granting = head.call<&Head::reserve>(request);
        while (goes_on && !granting.wait_for(kAskWhetherToGoOnEvery)) {
          if (goes_on()) continue;
          granting.cancel();
          return std::nullopt;
        }
        ReservedBundles granted = granting.get();
        // After a loss, this program may have told the head that it does not have the reservation.
        const auto added =
            reservations_.add_if([&] { return head_.losses() == losses; }, granted.key);
        if (added == HeldReservations::Added::kHeldAlready)
          throw_error(ErrorCode::kAlreadyExists,
                      "{} has the reservation '{}' already; release it first, or take another name",
                      options_.name, request.name);
        if (added == HeldReservations::Added::kNotCurrent)
          throw_error(ErrorCode::kUnavailable, "the connection to the head was lost");
        return granted;
      });
  if (!reserved)
    throw_error(ErrorCode::kCancelled, "interrupted while waiting for reservation '{}'",
                request.name);
  return Reservation(*reserved, [this](const MeshKey& key) { release_reservation(key); });
}

void Cluster::release_reservation(const MeshKey& key) {
  reservations_.remove(key);
  if (failures_.is_cluster_lost()) return;
  try {
    head_.reach({}).head.within(kHeadReplyWithin).call<&Head::release_reservation>(key).get();
  } catch (const Error&) {
    // A head that is away learns of it when this program reconnects or has ended.
  }
}

}  // namespace weft::actors

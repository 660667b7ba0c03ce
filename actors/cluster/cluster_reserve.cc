// Reservations of an owner.
#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/cluster/cluster.h"

namespace weft::actors {
namespace {

constexpr Nanoseconds kHeadReplyWithin = std::chrono::seconds(5);

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
  within = std::clamp(within, Nanoseconds::zero(), ReservationRequest::kLongestWait);
  ReservationRequest request{name, std::move(bundles), where.hosts, where.strategy, where.labels};
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + within;
  const auto reserved = head_.ask<ReservedBundles>(
      within + kHeadReplyWithin, [&](const ActorRef<Head>& head, std::uint64_t losses) {
        request.within_ns =
            std::max<Nanoseconds>(give_up - clock.now(), Nanoseconds::zero()).count();
        ReservedBundles granted = head.call<&Head::reserve>(request).get();
        // After a loss, this program may have told the head that it does not have the reservation.
        const auto added =
            reservations_.add_if([&] { return head_.losses() == losses; }, granted.key);
        if (added == HeldReservations::Added::kHeldAlready)
          throw_error(ErrorCode::kAlreadyExists,
                      "{} has the reservation '{}' already; release it first, or take another name",
                      options_.name, name);
        if (added == HeldReservations::Added::kNotCurrent)
          throw_error(ErrorCode::kUnavailable, "the connection to the head was lost");
        return granted;
      });
  return Reservation(reserved, [this](const MeshKey& key) { release_reservation(key); });
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

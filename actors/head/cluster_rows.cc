#include "actors/head/cluster_rows.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/machine.h"

namespace weft::actors {
namespace {

/// Limit far above that of `weft join`.
constexpr std::uint32_t kMaxDevicesInRow = 1u << 16;

void check_ranks(const std::set<std::uint32_t>& ranks, std::size_t size, const char* what) {
  if (!ranks.empty() && *ranks.rbegin() >= size)
    throw_error(ErrorCode::kDataLoss, "a mesh of {} ranks whose rank {} is {}", size,
                *ranks.rbegin(), what);
}

}  // namespace

void check_row(const HostRow& row) {
  if (row.offer.devices > kMaxDevicesInRow)
    throw_error(ErrorCode::kDataLoss, "host '{}' with {} devices", row.offer.name,
                row.offer.devices);
}

void check_row(const MeshRow& row) {
  const std::size_t size = row.places.size();
  check_ranks(row.detached_ranks, size, "lost");
  check_ranks(row.dead, size, "dead");
  if (row.processes.size() > size)
    throw_error(ErrorCode::kDataLoss, "a mesh of {} ranks with {} processes", size,
                row.processes.size());
  if (std::cmp_less(row.request.shape.size(), size))
    throw_error(ErrorCode::kDataLoss, "a mesh of {} ranks with {} places", row.request.shape.size(),
                size);
  for (const DeviceProcess& process : row.processes)
    if (process.rank >= size)
      throw_error(ErrorCode::kDataLoss, "a mesh of {} ranks with a process of rank {}", size,
                  process.rank);
}

void check_row(const ActorRow& row) { check_actors(row.actors); }

void check_row(const ReservationRow& row) {
  if (row.places.size() != row.request.bundles.size())
    throw_error(ErrorCode::kDataLoss, "reservation '{}' of {} bundles with {} places",
                row.request.name, row.request.bundles.size(), row.places.size());
}

void check_actors(const NamedActors& actors) {
  actors.shape.check();
  if (std::cmp_not_equal(actors.shape.size(), actors.addresses.size()))
    throw_error(ErrorCode::kDataLoss, "actors named '{}' of {} ranks with {} addresses",
                actors.name, actors.shape.size(), actors.addresses.size());
  check_ranks(actors.ended, actors.addresses.size(), "ended");
}

bool is_on_this_machine(const HostRegistration& host) { return host.machine == machine_name(); }

}  // namespace weft::actors

#include "actors/head/cluster_status.h"

#include "core/base/platform.h"

namespace weft::actors {
namespace {

constexpr std::size_t kEventsInStatus = 20;

}  // namespace

ClusterStatus cluster_status(const HeadConfig& config, StateStore& store, const HostTable& hosts,
                             const MeshTable& meshes, const OwnerTable& owners,
                             const Reservations& reservations) {
  ClusterStatus status;
  status.cluster = store.cluster_id();
  status.term = store.term();
  status.address = to_string(config.address);
  status.pid = process_id();
  status.hosts = hosts.statuses();
  for (HostStatus& host : status.hosts) {
    meshes.add_device_users(host);
    reservations.add_device_users(host);
  }
  status.meshes = meshes.statuses();
  status.runs = owners.statuses();
  status.reservations = reservations.statuses();
  status.events = store.last_events(kEventsInStatus);
  return status;
}

}  // namespace weft::actors

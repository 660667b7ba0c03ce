#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "actors/head/cluster_messages.h"

namespace weft::apps {

/// Returns a table of processors, memory, other resources and labels of hosts. Empty unless a host
/// has labels or other resources, or processors or memory in use.
std::string resources_text(const actors::ClusterStatus& status);

/// Returns a line per reservation, or "" if there is none.
std::string reservations_text(const actors::ClusterStatus& status);

/// Returns "waiting: reservation pool of run x: needs 4 x {devices 1}: 2 of 4 bundles fit now".
std::string waiting_text(const actors::ReservationStatus& reservation);

nlohmann::ordered_json reservation_json(const actors::ReservationStatus& reservation);
/// Returns {"cpus": {"total": 8, "used": 2}, "memory": ..., "resources": {...}, "labels": {...}}.
nlohmann::ordered_json resources_json(const actors::HostStatus& host);

}  // namespace weft::apps

#pragma once

#include <map>
#include <span>
#include <string>

#include "actors/head/cluster_messages.h"

namespace weft::mesh {

/// Returns the first slot of each host. Devices of all hosts on one machine are numbered
/// consecutively in the given order, so that each has its own GPU. Example: hosts worker0 and
/// worker1 with two devices each on one machine get 0 and 2. Pure.
std::map<std::string, int> first_slot_by_host(std::span<const actors::HostStatus> hosts);

}  // namespace weft::mesh

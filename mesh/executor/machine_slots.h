#pragma once

#include <map>
#include <span>
#include <string>

#include "actors/head/cluster_messages.h"

namespace weft::mesh {

/// The first slot of every host: devices of all hosts on one machine are counted through, in the
/// order given, so that each has a GPU of its own. Hosts worker0 and worker1 of two devices each on
/// one machine: 0 and 2. Pure.
std::map<std::string, int> first_slots(std::span<const actors::HostStatus> hosts);

}  // namespace weft::mesh

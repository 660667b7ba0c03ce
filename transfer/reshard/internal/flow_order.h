#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/flow.h"
#include "transfer/topology/topology.h"

namespace weft::transfer::internal {

/// Round robin: every root host begins with another receiver, the next one being the next host, and
/// so do the devices of both. At any time a host then receives from few, which is what switches and
/// sockets like. For any number of flows.
std::vector<std::uint32_t> rotated_order(std::span<const Flow> flows, const Topology& topology);

/// The flows of each root host as they are, the hosts taking turns: what several hosts send goes on
/// evenly wherever it is passed on.
std::vector<std::uint32_t> interleaved_order(std::span<const Flow> flows, const Topology& topology);

/// The flows in that order, with ids that say so.
std::vector<Flow> reordered(std::vector<Flow> flows, std::span<const std::uint32_t> order);

}  // namespace weft::transfer::internal

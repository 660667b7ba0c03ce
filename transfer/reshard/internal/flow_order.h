#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/flow.h"
#include "transfer/topology/topology.h"

namespace weft::transfer::internal {

/// Returns a round-robin order: every root host begins with a different receiver and continues with
/// the next host; the devices of both hosts rotate likewise. At any time a host then receives from
/// few others, which suits switches and sockets. Handles any number of flows.
std::vector<std::uint32_t> rotated_order(std::span<const Flow> flows, const Topology& topology);

/// Returns a round-robin order over root hosts that keeps each host's order, so that relays receive
/// evenly.
std::vector<std::uint32_t> interleaved_order(std::span<const Flow> flows, const Topology& topology);

/// Returns the flows in that order, with ids to match.
std::vector<Flow> reordered(std::vector<Flow> flows, std::span<const std::uint32_t> order);

}  // namespace weft::transfer::internal

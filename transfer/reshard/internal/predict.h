#pragma once

#include <span>

#include "transfer/flow/simulate.h"

namespace weft::transfer::internal {

/// Returns the seconds until all flows have landed, by simulate(), with a coarse resolution from
/// some thousand edges on. Beyond 100,000 edges returns predict_by_load(). `places` is
/// SimulateOptions::send_slots. Adds the cost of the simulation to `steps`, if given.
double predict(std::span<const Flow> flows, const Topology& topology, const Network& network,
               const std::vector<std::uint32_t>& places = {}, std::uint64_t* steps = nullptr);

/// Returns the time of the busiest link plus that of filling the slowest flow's tree.
double predict_by_load(std::span<const Flow> flows, const Topology& topology,
                       const Network& network);

/// Returns the bytes that cross between hosts.
std::uint64_t wire_bytes(std::span<const Flow> flows, const Topology& topology);

}  // namespace weft::transfer::internal

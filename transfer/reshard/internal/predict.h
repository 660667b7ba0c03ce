#pragma once

#include <span>

#include "transfer/flow/simulate.h"

namespace weft::transfer::internal {

/// Seconds until all flows have landed: by simulate(), coarsely from some thousand edges on; beyond
/// 100,000 edges the time of the busiest link plus that of filling the slowest flow's tree.
/// `places`: see SimulateOptions. `steps`, if any, grows by what that cost.
double predict(std::span<const Flow> flows, const Topology& topology, const Network& network,
               const std::vector<std::uint32_t>& places = {}, std::uint64_t* steps = nullptr);

/// The second form alone. Never less than the busiest link takes.
double predict_by_load(std::span<const Flow> flows, const Topology& topology,
                       const Network& network);

/// What crosses between hosts.
std::uint64_t wire_bytes(std::span<const Flow> flows, const Topology& topology);

}  // namespace weft::transfer::internal

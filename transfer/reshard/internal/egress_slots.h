#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/egress_limit.h"
#include "transfer/flow/flow.h"
#include "transfer/reshard/internal/host_loads.h"
#include "transfer/reshard/internal/weft_problem.h"

namespace weft::transfer::internal {

/// Returns the number of flows that each device sends at a time. The sending devices of a host
/// share its slots. A host whose link is faster than its receivers' needs more slots. `roots`: per
/// flow, the devices that may be its root; empty: the flow's own root. `yield`: hosts with time to
/// spare get one slot per device, hosts with none get twice as many.
std::vector<std::uint32_t> egress_slots(const WeftProblem& problem, const HostLoads& loads,
                                        std::span<const Flow> flows,
                                        std::span<const std::vector<DeviceId>> roots,
                                        const EgressLimit& rule, bool yield);

}  // namespace weft::transfer::internal

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/flow.h"
#include "transfer/flow/simulate.h"
#include "transfer/reshard/internal/weft_problem.h"

namespace weft::transfer::internal {

/// Unit of cuts of flows, in bytes.
inline constexpr std::uint64_t kCutAlignment = 16 * 1024;

/// Bytes [begin, end) of a flow, sent by `root`.
struct FlowPart {
  std::uint32_t flow;
  DeviceId root;
  std::uint64_t begin, end;
};

/// Returns one flow for each of `parts` of `flows`, in this order, with ids to match. `fine`:
/// smaller chunks for forwarded flows.
std::vector<Flow> parts_of(const WeftProblem& problem, std::span<const Flow> flows,
                           std::span<const FlowPart> parts, bool fine);

/// Converts `runs` of `atoms` into parts of the atoms' flows.
std::vector<FlowPart> parts_of_runs(std::span<const FlowPart> atoms, std::span<const FlowRun> runs);

}  // namespace weft::transfer::internal

#pragma once

#include <vector>

#include "transfer/flow/flow.h"
#include "transfer/reshard/internal/pieces.h"
#include "transfer/reshard/internal/weft_problem.h"

namespace weft::transfer::internal {

/// Flows of a set of pieces.
struct PieceFlows {
  std::vector<Flow> flows;
  std::vector<std::vector<DeviceId>> roots;  ///< Per flow, the devices that can be its root.
};

/// Returns the flows of `pieces`: one per host tree of a piece and bundle in it, in the order of
/// the pieces, then those inside hosts.
PieceFlows flows_of(const WeftProblem& problem, const std::vector<Piece>& pieces);

}  // namespace weft::transfer::internal

#pragma once

#include <vector>

#include "mesh/schedule/action_graph.h"
#include "mesh/schedule/simulate.h"

namespace weft::mesh {

/// Times of actions and transfers that determine memory. Actions are indexed by node of the graph.
struct MemoryTimes {
  struct TransferTimes {
    int edge = 0;
    int producer = 0;
    int consumer = 0;
    double made = 0;
    double start = 0;
    double end = 0;
  };
  std::vector<double> action_start, action_end;
  std::vector<TransferTimes> transfers;
};

/// Computes each actor's peak memory, and its levels over time if `levels`. Counts activations from
/// F to the gradients, a sent tensor from its computation to its arrival, and a received tensor
/// from the start of its transfer to the end of its use.
void record_memory(const ScheduleCosts& costs, const ActionGraph& graph, const MemoryTimes& times,
                   bool levels, ScheduleSimulation& simulation);

}  // namespace weft::mesh

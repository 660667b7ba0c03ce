#pragma once

#include <vector>

#include "mesh/schedule/action_graph.h"
#include "mesh/schedule/simulate.h"

namespace weft::mesh {

/// When everything ran, as far as memory is concerned. Actions by node of the graph.
struct MemoryTimes {
  struct Transfer {
    int edge = 0;
    int producer = 0;
    int consumer = 0;
    double made = 0;
    double start = 0;
    double end = 0;
  };
  std::vector<double> action_start, action_end;
  std::vector<Transfer> transfers;
};

/// Sweeps every actor: activations from F to the gradients, a sent tensor from its making to its
/// arrival, a received one from the start of its transfer to the end of its use. Sets each actor's
/// peak, and its levels if `levels`.
void record_memory(const ScheduleCosts& costs, const ActionGraph& graph, const MemoryTimes& times,
                   bool levels, ScheduleSimulation& simulation);

}  // namespace weft::mesh

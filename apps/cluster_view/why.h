#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/cluster_view/observer.h"
#include "apps/cluster_view/wait_graph.h"

namespace weft::apps {

/// Who waits for whom in a cluster now.
struct Why {
  WaitGraph graph;
  std::optional<std::size_t> about;  ///< the waiter that was asked for
  std::vector<std::string> runs;     ///< the runs that it shows
  std::string head_problem;  ///< why the head's own handlers have not answered; empty: they have
  double seconds = 0;        ///< that it took to ask
};

/// Asks the processes of a run ("quickstart"), or of all (nothing), or those around an actor
/// ("front[data=0,tensor=1]", "front[0,1]", "head", "agent of worker0"): their I/O threads, over
/// the connections of the head, the agents and the drivers. `within`: for all of them together.
/// Throws Error(kNotFound) with the nearest name.
Why ask_why(Observer& observer, const std::string& wanted, Nanoseconds within);

}  // namespace weft::apps

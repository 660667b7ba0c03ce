#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/cluster_view/head_client.h"
#include "apps/cluster_view/wait_graph.h"

namespace weft::apps {

/// Wait graph of a cluster.
struct WaitReport {
  WaitGraph graph;
  std::optional<std::size_t> about;       ///< waiter that was asked for
  std::vector<std::string> runs;          ///< names of the runs in the graph
  std::vector<std::string> reservations;  ///< reservations that wait, with the reason
  std::string head_problem;  ///< reason why the head's actor did not answer; empty if it did
  double seconds = 0;        ///< duration of the survey
};

/// Surveys the processes of one run ("quickstart"), of all runs (`wanted` empty), or those around
/// an actor ("front[data=0,tensor=1]", "front[0,1]", "quickstart/front[0,1]", "head", "agent of
/// worker0"). Their I/O threads answer, over the connections of the head, the agents and the
/// drivers. `within` limits the whole survey. Throws Error(kNotFound) with the nearest name, and
/// Error(kInvalidArgument) for a mesh of several actors.
WaitReport survey_waits(HeadClient& observer, const std::string& wanted, Nanoseconds within);

}  // namespace weft::apps

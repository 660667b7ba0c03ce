#pragma once

#include <optional>
#include <vector>

#include "core/simulation/task_graph.h"

namespace weft {

/// Result of simulate_tasks(): times of each task, indexed by task.
struct TaskTimes {
  std::vector<double> start;  ///< Start; for a movement, the time when it first moved.
  std::vector<double> end;
  /// Predecessor on the critical path: the last dependency, the task that made the last receiver
  /// ready, or the movement that freed the link.
  std::vector<std::optional<TaskId>> critical_predecessor;
  std::vector<bool> has_ended;  ///< False if the task never ends.

  bool all_ended() const;
};

/// Simulates the tasks: each starts when all of its dependencies have ended. Without movements the
/// cost is linear in tasks and arcs. With movements, each event costs the logarithm of a heap's
/// size plus the number of movements under way. Throws Error(kInvalidArgument) if a movement names
/// a link, queue or buffer that does not exist, or uses a queue or an early start on links shared
/// kFifo.
TaskTimes simulate_tasks(const TaskGraph& graph);

}  // namespace weft

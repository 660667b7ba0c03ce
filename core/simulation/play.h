#pragma once

#include <optional>
#include <vector>

#include "core/simulation/task_graph.h"

namespace weft {

/// When each task ran, by task.
struct TaskTimes {
  std::vector<double> start;  ///< A movement's, when it first moved.
  std::vector<double> end;
  /// The task whose end let it start: the last it waited for, the one that made its last receiver
  /// ready, or the one that made room for it on a link.
  std::vector<std::optional<TaskId>> held_up_by;
  std::vector<bool> is_over;  ///< False: it waits for ever.

  bool all_over() const;
};

/// Plays the tasks: each starts when all that it waits for are over. Pure. Linear in tasks and arcs
/// without movements; with them, a heap's logarithm, and a change of what is under way costs as
/// much as that is. Throws Error(kInvalidArgument) if a movement names a link, queue or buffer that
/// there is not, or has a queue or moves early where links carry one at a time.
TaskTimes play(const TaskGraph& graph);

}  // namespace weft

#include "mesh/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace weft::mesh {

std::size_t end_of_compound(std::span<const Action> actions, std::size_t first) {
  std::size_t end = first + 1;
  while (end < actions.size() && actions[end].joins_previous) ++end;
  return end;
}

bool has_compounds(const Schedule& schedule) {
  return std::ranges::any_of(schedule.actors, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, &Action::joins_previous);
  });
}

void erase_actions(std::vector<Action>& actions,
                   const std::function<bool(const Action&)>& is_erased) {
  std::vector<Action> kept;
  for (std::size_t begin = 0; begin < actions.size();) {
    const std::size_t end = end_of_compound(actions, begin);
    bool joins = false;
    for (; begin < end; ++begin) {
      if (is_erased(actions[begin])) continue;
      kept.push_back(actions[begin]);
      kept.back().joins_previous = std::exchange(joins, true);
    }
  }
  actions = std::move(kept);
}

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    const std::vector<Action>& actions = schedule.actors[actor];
    text += fmt::format("actor {}:", actor);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const bool joins = actions[i].joins_previous,
                 joined = i + 1 < actions.size() && actions[i + 1].joins_previous;
      text += joins ? ";" : joined ? " (" : " ";
      text += to_string(actions[i]);
      if (joins && !joined) text += ")";
    }
    text += "\n";
  }
  return text;
}

std::vector<StageEdge> chain_edges(int stages, std::uint64_t bytes) {
  std::vector<StageEdge> edges;
  for (int stage = 0; stage + 1 < stages; ++stage) edges.push_back({stage, stage + 1, bytes});
  return edges;
}

int num_actors(std::span<const int> actor_of_stage) {
  return *std::ranges::max_element(actor_of_stage) + 1;
}

Schedule make_task_schedule(std::string name, std::vector<int> actor_of_stage, int microbatches,
                            const TaskFunction& tasks) {
  if (actor_of_stage.empty() || microbatches < 1 || *std::ranges::min_element(actor_of_stage) < 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' needs at least 1 stage on an actor from 0 up, and 1 microbatch",
                name);
  }
  Schedule schedule{std::move(name),
                    static_cast<int>(actor_of_stage.size()),
                    microbatches,
                    std::move(actor_of_stage),
                    {},
                    0};
  const int actors = num_actors(schedule.actor_of_stage);
  for (int actor = 0; actor < actors; ++actor) {
    schedule.actors.emplace_back();
    for (const std::optional<Action>& action : tasks(actor, microbatches)) {
      if (action) schedule.actors.back().push_back(*action);
    }
  }
  validate(schedule, chain_edges(schedule.stages));
  return schedule;
}

}  // namespace weft::mesh

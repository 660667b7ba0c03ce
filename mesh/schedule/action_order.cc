#include "mesh/schedule/action_order.h"

#include <algorithm>
#include <optional>

#include "core/base/check.h"
#include "mesh/schedule/action_graph.h"

namespace weft::mesh {
namespace {

ActionPlace place_of(const ActionGraph& graph, int node) {
  const int actor = graph.actor(node);
  return {static_cast<std::size_t>(actor), static_cast<std::size_t>(node - graph.first(actor))};
}

int node_at(const ActionGraph& graph, std::size_t actor, std::size_t index) {
  return graph.first(actor) + static_cast<int>(index);
}

}  // namespace

std::vector<OrderedAction> order_actions(const Schedule& schedule, std::span<const StageEdge> edges,
                                         const VocabularyTimes& times) {
  const ActionGraph graph(schedule, edges);
  const std::size_t actors = schedule.actors.size();
  const double chunks = static_cast<double>(schedule.stages) / static_cast<double>(actors);
  std::vector<std::vector<double>> finish(actors);
  // Earliest start of each actor's next action; absent while a dependency has not run.
  std::vector<std::optional<double>> ready(actors);
  std::vector<OrderedAction> order;
  const auto look = [&](std::size_t actor) {
    ready[actor].reset();
    const std::size_t index = finish[actor].size();
    if (index == schedule.actors[actor].size()) return;
    double start = index == 0 ? 0 : finish[actor].back();
    for (const ActionGraph::ActionDependency& need : graph.needs(node_at(graph, actor, index))) {
      const ActionPlace place = place_of(graph, need.node);
      if (place.index >= finish[place.actor].size()) return;
      const double moved = place.actor == actor
                               ? 0
                               : times.between(schedule.actors[place.actor][place.index].kind,
                                               schedule.actors[actor][index].kind);
      start = std::max(start, finish[place.actor][place.index] + moved);
    }
    ready[actor] = start;
  };
  for (std::size_t actor = 0; actor < actors; ++actor) look(actor);
  while (true) {
    std::optional<std::size_t> first;
    for (std::size_t actor = 0; actor < actors; ++actor) {
      if (ready[actor] && (!first || *ready[actor] < *ready[*first])) first = actor;
    }
    if (!first) break;
    const std::size_t index = finish[*first].size();
    const double start = *ready[*first];
    const ActionKind kind = schedule.actors[*first][index].kind;
    order.push_back({{*first, index}, start, start + times.of(kind, chunks)});
    finish[*first].push_back(order.back().finish);
    look(*first);
    for (std::size_t actor = 0; actor < actors; ++actor) {
      if (!ready[actor]) look(actor);
    }
  }
  for (std::size_t actor = 0; actor < actors; ++actor) {
    WEFT_CHECK(finish[actor].size() == schedule.actors[actor].size(), "schedule '{}' cannot finish",
               schedule.name);
  }
  return order;
}

ActionHistory::ActionHistory(const Schedule& schedule, std::span<const StageEdge> edges,
                             const std::vector<OrderedAction>& order) {
  const ActionGraph graph(schedule, edges);
  const std::size_t actors = schedule.actors.size();
  ended_.resize(actors);
  for (const OrderedAction& ordered : order) {
    const auto [actor, index] = ordered.place;
    std::vector<std::uint32_t> ended =
        index == 0 ? std::vector<std::uint32_t>(actors, 0) : ended_[actor][index - 1];
    ended[actor] = index;
    for (const ActionGraph::ActionDependency& need : graph.needs(node_at(graph, actor, index))) {
      const ActionPlace place = place_of(graph, need.node);
      const std::vector<std::uint32_t>& theirs = ended_[place.actor][place.index];
      for (std::size_t other = 0; other < actors; ++other)
        ended[other] = std::max(ended[other], theirs[other]);
      ended[place.actor] = std::max<std::uint32_t>(ended[place.actor], place.index + 1);
    }
    ended_[actor].push_back(std::move(ended));
  }
}

std::size_t ActionHistory::first_action_after(const ActionPlace& past, std::size_t actor) const {
  const auto& actions = ended_[actor];
  const auto found = std::partition_point(
      actions.begin(), actions.end(),
      [&](const std::vector<std::uint32_t>& ended) { return ended[past.actor] <= past.index; });
  return found - actions.begin();
}

}  // namespace weft::mesh

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

/// Builds the order: of the actions that can start, the one that can start first.
class OrderBuilder {
 public:
  OrderBuilder(const Schedule& schedule, const ActionGraph& graph, const VocabularyTimes& times)
      : schedule_(schedule),
        graph_(graph),
        times_(times),
        chunks_(static_cast<double>(schedule.stages) / static_cast<double>(num_actors())),
        finish_(num_actors()),
        ready_(num_actors()) {}

  std::vector<OrderedAction> build() {
    for (std::size_t actor = 0; actor < num_actors(); ++actor) ready_[actor] = start_of_next(actor);
    while (const std::optional<std::size_t> first = first_ready()) {
      append(*first);
      for (std::size_t actor = 0; actor < num_actors(); ++actor)
        if (actor == *first || !ready_[actor]) ready_[actor] = start_of_next(actor);
    }
    for (std::size_t actor = 0; actor < num_actors(); ++actor)
      WEFT_CHECK(finish_[actor].size() == schedule_.actors[actor].size(),
                 "schedule '{}' cannot finish", schedule_.name);
    return std::move(order_);
  }

 private:
  std::size_t num_actors() const { return schedule_.actors.size(); }
  ActionKind kind_at(std::size_t actor, std::size_t index) const {
    return schedule_.actors[actor][index].kind;
  }
  /// Returns the earliest start of the actor's next compound; absent if there is none, or if a
  /// dependency has not run.
  std::optional<double> start_of_next(std::size_t actor) const {
    const std::size_t first = finish_[actor].size();
    if (first == schedule_.actors[actor].size()) return std::nullopt;
    double start = first == 0 ? 0 : finish_[actor].back();
    for (std::size_t index = first; index < end_of_next(actor); ++index) {
      const int node = node_at(graph_, actor, index);
      for (const auto& need : graph_.needs(node)) {
        if (need.node < node && graph_.in_one_compound(need.node, node)) continue;
        const ActionPlace place = place_of(graph_, need.node);
        if (place.index >= finish_[place.actor].size()) return std::nullopt;
        const double moved =
            place.actor == actor
                ? 0
                : times_.between(kind_at(place.actor, place.index), kind_at(actor, index));
        start = std::max(start, finish_[place.actor][place.index] + moved);
      }
    }
    return start;
  }
  /// Returns the index behind the actor's next compound.
  std::size_t end_of_next(std::size_t actor) const {
    return end_of_compound(schedule_.actors[actor], finish_[actor].size());
  }
  std::optional<std::size_t> first_ready() const {
    std::optional<std::size_t> first;
    for (std::size_t actor = 0; actor < num_actors(); ++actor)
      if (ready_[actor] && (!first || *ready_[actor] < *ready_[*first])) first = actor;
    return first;
  }
  void append(std::size_t actor) {
    const std::size_t first = finish_[actor].size(), end = end_of_next(actor);
    const double start = *ready_[actor];
    double finish = start;
    for (std::size_t index = first; index < end; ++index)
      finish += times_.of(kind_at(actor, index), chunks_);
    for (std::size_t index = first; index < end; ++index) {
      order_.push_back({{actor, index}, start, finish});
      finish_[actor].push_back(finish);
    }
  }

  const Schedule& schedule_;
  const ActionGraph& graph_;
  const VocabularyTimes& times_;
  const double chunks_;  ///< Stages per actor.
  std::vector<std::vector<double>> finish_;
  /// Earliest start of each actor's next compound; absent while a dependency has not run.
  std::vector<std::optional<double>> ready_;
  std::vector<OrderedAction> order_;
};

}  // namespace

std::vector<OrderedAction> order_actions(const Schedule& schedule, std::span<const StageEdge> edges,
                                         const VocabularyTimes& times) {
  const ActionGraph graph(schedule, edges);
  return OrderBuilder(schedule, graph, times).build();
}

ActionHistory::ActionHistory(const Schedule& schedule, std::span<const StageEdge> edges,
                             const std::vector<OrderedAction>& order) {
  const ActionGraph graph(schedule, edges);
  const std::size_t actors = schedule.actors.size();
  ended_.resize(actors);
  for (const OrderedAction& ordered : order) {
    const auto [actor, index] = ordered.place;
    const int node = node_at(graph, actor, index);
    if (graph.compound_begin(node) != node) {
      ended_[actor].push_back(ended_[actor].back());
      continue;
    }
    std::vector<std::uint32_t> ended =
        index == 0 ? std::vector<std::uint32_t>(actors, 0) : ended_[actor][index - 1];
    ended[actor] = index;
    for (int member = node; member <= graph.compound_end(node); ++member) {
      for (const ActionGraph::ActionDependency& need : graph.needs(member)) {
        if (graph.in_one_compound(need.node, node)) continue;
        const ActionPlace place = place_of(graph, graph.compound_end(need.node));
        const std::vector<std::uint32_t>& theirs = ended_[place.actor][place.index];
        for (std::size_t other = 0; other < actors; ++other)
          ended[other] = std::max(ended[other], theirs[other]);
        ended[place.actor] = std::max<std::uint32_t>(ended[place.actor], place.index + 1);
      }
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

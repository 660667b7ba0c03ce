#include "mesh/schedule/action_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace weft::mesh {

ActionGraph::ActionGraph(const Schedule& schedule, std::span<const StageEdge> edges)
    : schedule_(schedule) {
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    first_.push_back(size());
    actor_.resize(actor_.size() + schedule.actors[actor].size(), actor);
  }
  first_.push_back(size());
  for (int node = 0; node < size(); ++node) index_action(node);
  index_compounds();

  const std::size_t stages = schedule.stages;
  std::vector<std::vector<int>> into(stages), out_of(stages);
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const StageEdge& edge = edges[e];
    if (edge.from < 0 || edge.to < 0 || edge.from >= schedule.stages ||
        edge.to >= schedule.stages || edge.from == edge.to) {
      throw_error(ErrorCode::kInvalidArgument,
                  "schedule '{}' has stages 0 to {}: there can be no edge {} -> {}", schedule.name,
                  schedule.stages - 1, edge.from, edge.to);
    }
    into[edge.to].push_back(e);
    out_of[edge.from].push_back(e);
  }
  needs_.reserve(static_cast<std::size_t>(size()) * 2);
  need_begin_.reserve(size() + 1);
  for (int node = 0; node < size(); ++node) {
    need_begin_.push_back(needs_.size());
    add_needs(node, into, out_of, edges);
  }
  need_begin_.push_back(needs_.size());
}

int& ActionGraph::slot(ActionKind kind, int stage, int microbatch) {
  std::vector<int>& nodes = nodes_[static_cast<std::size_t>(kind)];
  if (nodes.empty())
    nodes.assign(schedule_.stages * static_cast<std::size_t>(schedule_.microbatches), -1);
  return nodes[stage * static_cast<std::size_t>(schedule_.microbatches) + std::max(microbatch, 0)];
}

void ActionGraph::index_action(int node) {
  const Action& one = action(node);
  const bool sound =
      one.stage >= 0 && one.stage < schedule_.stages &&
      (has_microbatch(one.kind) ? one.microbatch >= 0 && one.microbatch < schedule_.microbatches
                                : one.microbatch == kNoMicrobatch);
  if (!sound) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}', actor {}: {} names a stage or microbatch that does not exist",
                schedule_.name, actor(node), to_string(one));
  }
  int& place = slot(one.kind, one.stage, one.microbatch);
  if (place >= 0) {
    throw_error(ErrorCode::kInvalidArgument, "schedule '{}', actor {}: {} occurs twice; remove one",
                schedule_.name, actor(node), to_string(one));
  }
  place = node;
  if (!is_vocabulary_pass(one.kind)) return;
  std::vector<int>& stages = stages_of(one.kind);
  if (std::ranges::find(stages, one.stage) == stages.end()) stages.push_back(one.stage);
}

void ActionGraph::index_compounds() {
  for (int actor = 0; actor < num_actors(); ++actor) {
    const std::vector<Action>& actions = schedule_.actors[actor];
    for (std::size_t begin = 0; begin < actions.size();) {
      const std::size_t end = end_of_compound(actions, begin);
      compound_begin_.insert(compound_begin_.end(), end - begin,
                             first(actor) + static_cast<int>(begin));
      compound_end_.insert(compound_end_.end(), end - begin,
                           first(actor) + static_cast<int>(end) - 1);
      begin = end;
    }
  }
}

int ActionGraph::lookup(ActionKind kind, int stage, int microbatch) const {
  const std::vector<int>& nodes = nodes_[static_cast<std::size_t>(kind)];
  if (nodes.empty()) return -1;
  return nodes[stage * static_cast<std::size_t>(schedule_.microbatches) + std::max(microbatch, 0)];
}

std::optional<int> ActionGraph::find(ActionKind kind, int stage, int microbatch) const {
  if (const int node = lookup(kind, stage, microbatch); node >= 0) return node;
  if (kind != ActionKind::kInputGrad && kind != ActionKind::kWeightGrad) return std::nullopt;
  const int whole = lookup(ActionKind::kBackward, stage, microbatch);
  return whole >= 0 ? std::optional(whole) : std::nullopt;
}

void ActionGraph::need(int node, ActionKind kind, int stage, int microbatch, int edge) {
  if (const auto found = find(kind, stage, microbatch)) {
    needs_.push_back({*found, edge});
  } else {
    missing_.push_back({node, {stage, kind, microbatch}});
  }
}

void ActionGraph::need_all_microbatches(int node, ActionKind kind, int stage) {
  for (int i = 0; i < schedule_.microbatches; ++i) need(node, kind, stage, i);
}

void ActionGraph::need_all_gradients(int node) {
  const int stage = action(node).stage;
  need_all_microbatches(node, ActionKind::kWeightGrad, stage);
  for (const ActionKind kind : {ActionKind::kVocabularyGrads, ActionKind::kInputBackward}) {
    if (std::ranges::find(stages_of(kind), stage) != stages_of(kind).end())
      need_all_microbatches(node, kind, stage);
  }
}

void ActionGraph::need_all_actors(int node, ActionKind kind) {
  for (const int stage : stages_of(kind)) need(node, kind, stage, action(node).microbatch);
}

void ActionGraph::add_backward_needs(int node, std::span<const int> out_of_stage,
                                     std::span<const StageEdge> edges) {
  const Action& one = action(node);
  need(node, ActionKind::kForward, one.stage, one.microbatch);
  if (const auto again = find(ActionKind::kRecompute, one.stage, one.microbatch))
    needs_.push_back({*again, -1});
  for (const int edge : out_of_stage)
    need(node, ActionKind::kInputGrad, edges[edge].to, one.microbatch, edge);
  if (one.stage != schedule_.stages - 1) return;
  if (schedule_.vocabulary_barriers == 1) need_all_actors(node, ActionKind::kVocabularyScores);
  else if (schedule_.vocabulary_barriers == 2) need_all_actors(node, ActionKind::kVocabularyGrads);
}

void ActionGraph::add_needs(int node, std::span<const std::vector<int>> into,
                            std::span<const std::vector<int>> out_of,
                            std::span<const StageEdge> edges) {
  const Action& one = action(node);
  const std::size_t stage = one.stage;
  switch (one.kind) {
    case ActionKind::kForward:
      for (const int edge : into[stage]) {
        need(node, ActionKind::kForward, edges[edge].from, one.microbatch, edge);
      }
      if (one.stage == 0) need_all_actors(node, ActionKind::kInputForward);
      break;
    case ActionKind::kRecompute: need(node, ActionKind::kForward, one.stage, one.microbatch); break;
    case ActionKind::kBackward:
    case ActionKind::kInputGrad: add_backward_needs(node, out_of[stage], edges); break;
    case ActionKind::kWeightGrad:
      need(node, ActionKind::kInputGrad, one.stage, one.microbatch);
      break;
    case ActionKind::kVocabularyScores:
      need(node, ActionKind::kForward, schedule_.stages - 1, one.microbatch);
      break;
    case ActionKind::kVocabularyGrads: need_all_actors(node, ActionKind::kVocabularyScores); break;
    case ActionKind::kInputForward: break;
    case ActionKind::kInputBackward: need(node, ActionKind::kInputGrad, 0, one.microbatch); break;
    case ActionKind::kReduceGrad: need_all_gradients(node); break;
    case ActionKind::kOptimizer:
      if (const auto reduce = find(ActionKind::kReduceGrad, one.stage, kNoMicrobatch))
        needs_.push_back({*reduce, -1});
      else need_all_gradients(node);
      break;
  }
}

namespace {
TaskId task(int node) { return TaskId(node); }
}  // namespace

TaskGraph ActionGraph::tasks(double seconds) const {
  TaskGraph tasks;
  for (int node = 0; node < size(); ++node) tasks.add(seconds);
  for (int node = 0; node < size(); ++node) {
    if (previous(node) >= 0) tasks.add_dependency(task(node), task(previous(node)));
  }
  for (int node = 0; node < size(); ++node)
    for (const ActionDependency& one : needs(node)) add_wait(tasks, node, one.node);
  return tasks;
}

void ActionGraph::add_wait(TaskGraph& tasks, int node, int need) const {
  if (in_one_compound(node, need)) tasks.add_dependency(task(node), task(need));
  else tasks.add_dependency(task(compound_begin(node)), task(compound_end(need)));
}

std::vector<int> ActionGraph::order() const {
  std::vector<int> order;
  for (const TaskId done : topological_order(tasks())) order.push_back(done.value());
  return order;
}

bool ActionGraph::needs(int node, int other) const {
  return std::ranges::any_of(needs(node),
                             [&](const ActionDependency& one) { return one.node == other; });
}

std::vector<int> ActionGraph::find_cycle() const {
  TaskGraph waits = tasks();
  // weft::find_cycle() follows the last-added wait of a task. Add needs in reverse, so that the
  // first need of a node is followed.
  for (int node = 0; node < size(); ++node) {
    const std::span<const ActionDependency> all = needs(node);
    for (auto one = all.rbegin(); one != all.rend(); ++one) add_wait(waits, node, one->node);
  }
  std::vector<int> cycle;
  for (const TaskId id : weft::find_cycle(waits)) cycle.push_back(id.value());
  // Keep only the actions that need another one or are needed.
  std::vector<int> shortened;
  const auto keep = [&](int node) {
    if (shortened.empty() || shortened.back() != node) shortened.push_back(node);
  };
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const auto dependency = dependency_between(cycle[i], cycle[(i + 1) % cycle.size()]);
    if (!dependency) continue;
    keep(dependency->first);
    keep(dependency->second);
  }
  if (shortened.size() > 1 && shortened.front() == shortened.back()) shortened.pop_back();
  return shortened;
}

std::optional<std::pair<int, int>> ActionGraph::dependency_between(int compound, int other) const {
  if (in_one_compound(compound, other))
    return needs(compound, other) ? std::optional(std::pair(compound, other)) : std::nullopt;
  for (int node = compound_begin(compound); node <= compound_end(compound); ++node)
    for (const ActionDependency& need : needs(node))
      if (in_one_compound(need.node, other)) return std::pair(node, need.node);
  return std::nullopt;
}

std::string describe_cycle(const ActionGraph& graph, std::span<const int> cycle) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const int node = cycle[i], next = cycle[(i + 1) % cycle.size()];
    const char* how = graph.needs(node, next)             ? "waits for"
                      : graph.in_one_compound(node, next) ? "is in a compound with"
                                                          : "comes after";
    parts.push_back(fmt::format("{} of actor {} {} {}", to_string(graph.action(node)),
                                graph.actor(node), how, to_string(graph.action(next))));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace weft::mesh

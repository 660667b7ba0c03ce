#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/simulation/task_graph.h"
#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Dependency graph of a schedule's actions. The order of actions on an actor is not part of the
/// dependencies. Nodes are numbered actor by actor, in order. Borrows the schedule. A value
/// otherwise.
class ActionGraph {
 public:
  /// Dependency on an earlier node. `edge` is the stage edge that carries its result, or -1 within
  /// a stage or between vocabulary passes.
  struct ActionDependency {
    int node = 0;
    int edge = -1;
  };

  /// Dependency on an action that the schedule lacks.
  struct MissingDependency {
    int node = 0;
    Action what;
  };

  /// Throws Error(kInvalidArgument) if a stage or microbatch is out of range, or if the schedule
  /// contains an action twice.
  ActionGraph(const Schedule& schedule, std::span<const StageEdge> edges);

  int size() const { return actor_.size(); }
  const Action& action(int node) const {
    const int actor = actor_[node];
    return schedule_.actors[actor][node - first_[actor]];
  }
  int actor(int node) const { return actor_[node]; }
  /// Returns an actor's first node. Its nodes are [first(actor), first(actor + 1)).
  int first(int actor) const { return first_[actor]; }
  int num_actors() const { return schedule_.actors.size(); }
  /// Returns the node before `node` on its actor, or -1.
  int previous(int node) const { return node == first(actor(node)) ? -1 : node - 1; }
  /// Return the first and the last member of the node's compound: the node itself if it is in none.
  int compound_begin(int node) const { return compound_begin_[node]; }
  int compound_end(int node) const { return compound_end_[node]; }
  bool in_one_compound(int node, int other) const {
    return compound_begin_[node] == compound_begin_[other];
  }
  std::span<const ActionDependency> needs(int node) const {
    const auto from = need_begin_[node], to = need_begin_[node + 1];
    return std::span(needs_).subspan(from, to - from);
  }
  /// Returns the node that runs a kind for (stage, microbatch), if it exists. For kInputGrad and
  /// kWeightGrad, B also counts.
  std::optional<int> find(ActionKind kind, int stage, int microbatch) const;
  /// Returns whether exactly this action exists.
  bool has(ActionKind kind, int stage, int microbatch) const {
    return lookup(kind, stage, microbatch) >= 0;
  }
  /// Returns the dependencies that the schedule lacks; empty if it is complete.
  std::span<const MissingDependency> missing() const { return missing_; }

  bool needs(int node, int other) const;
  /// Returns a task of `seconds` for each node. It waits for the previous node on its actor and for
  /// its dependencies. The first member of a compound waits for the dependencies of all members,
  /// and its users wait for the last one.
  TaskGraph tasks(double seconds = 0) const;
  /// Returns the nodes in an order that satisfies all dependencies and all actors' orders; shorter
  /// than size() if they form a cycle.
  std::vector<int> order() const;
  /// Returns a cycle of dependencies, actors' orders and compounds, or nothing. Each node waits for
  /// the next, the last for the first.
  std::vector<int> find_cycle() const;

 private:
  int& slot(ActionKind kind, int stage, int microbatch);
  int lookup(ActionKind kind, int stage, int microbatch) const;
  void index_action(int node);
  void index_compounds();
  /// Adds the wait for one dependency of a node.
  void add_wait(TaskGraph& tasks, int node, int need) const;
  /// Returns the dependency that makes one compound wait for another: the node that needs, and the
  /// one that it needs.
  std::optional<std::pair<int, int>> dependency_between(int compound, int other) const;
  void add_needs(int node, std::span<const std::vector<int>> into,
                 std::span<const std::vector<int>> out_of, std::span<const StageEdge> edges);
  void add_backward_needs(int node, std::span<const int> out_of_stage,
                          std::span<const StageEdge> edges);
  void need(int node, ActionKind kind, int stage, int microbatch, int edge = -1);
  void need_all_microbatches(int node, ActionKind kind, int stage);
  /// Adds dependencies on all weight gradients of the node's stage, and on the gradients of the
  /// vocabulary passes that carry its number.
  void need_all_gradients(int node);
  /// Adds dependencies on the vocabulary pass `kind` of all actors for the node's microbatch, if
  /// the schedule has it.
  void need_all_actors(int node, ActionKind kind);

  /// Returns the stages whose numbers a vocabulary pass carries.
  std::vector<int>& stages_of(ActionKind pass) {
    return pass_stages_[static_cast<std::size_t>(pass) -
                        static_cast<std::size_t>(ActionKind::kVocabularyScores)];
  }

  static constexpr std::size_t kKinds =
      static_cast<std::size_t>(last_enumerator<ActionKind>::kValue) + 1;

  const Schedule& schedule_;
  std::vector<int> first_;
  std::vector<int> actor_;
  std::vector<int> compound_begin_, compound_end_;
  /// Node or -1 by (stage, microbatch), per kind; empty if no action has the kind.
  std::array<std::vector<int>, kKinds> nodes_;
  /// Stages whose numbers the vocabulary passes carry, one per actor; by pass, from S on.
  std::array<std::vector<int>, 4> pass_stages_;
  std::vector<ActionDependency> needs_;
  std::vector<int> need_begin_;
  std::vector<MissingDependency> missing_;
};

/// Describes a cycle of find_cycle(): "1F3 of actor 1 waits for 0F3, 0F3 of actor 0 stands behind
/// 0B0, ...".
std::string describe_cycle(const ActionGraph& graph, std::span<const int> cycle);

}  // namespace weft::mesh

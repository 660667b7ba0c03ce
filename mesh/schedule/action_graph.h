#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/simulation/task_graph.h"
#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// The actions of a schedule as nodes, and what each needs from others. The order on an actor is
/// not among the needs. Nodes are numbered actor by actor, in order. Borrows the schedule. A value
/// otherwise.
class ActionGraph {
 public:
  /// `node` must have run before. `edge` is the stage edge that carries its result, or -1 within a
  /// stage or between vocabulary passes.
  struct Need {
    int node = 0;
    int edge = -1;
  };

  /// A need that no action of the schedule meets.
  struct Missing {
    int node = 0;
    Action what;
  };

  /// Throws Error(kInvalidArgument) if a stage or a microbatch is out of range, or an action stands
  /// there twice.
  ActionGraph(const Schedule& schedule, std::span<const StageEdge> edges);

  int size() const { return actor_.size(); }
  const Action& action(int node) const {
    const int actor = actor_[node];
    return schedule_.actors[actor][node - first_[actor]];
  }
  int actor(int node) const { return actor_[node]; }
  /// The nodes of an actor are first(actor) .. first(actor + 1).
  int first(int actor) const { return first_[actor]; }
  int num_actors() const { return schedule_.actors.size(); }
  /// Stands before `node` on its actor, or -1.
  int previous(int node) const { return node == first(actor(node)) ? -1 : node - 1; }
  std::span<const Need> needs(int node) const {
    const auto from = need_begin_[node], to = need_begin_[node + 1];
    return std::span(needs_).subspan(from, to - from);
  }
  /// The node that runs a kind for (stage, microbatch), if there is one. B answers to kInputGrad
  /// and kWeightGrad too.
  std::optional<int> find(ActionKind kind, int stage, int microbatch) const;
  /// Whether just this action is there.
  bool has(ActionKind kind, int stage, int microbatch) const {
    return lookup(kind, stage, microbatch) >= 0;
  }
  /// Empty for a complete schedule.
  std::span<const Missing> missing() const { return missing_; }

  bool needs(int node, int other) const;
  /// A task of so many seconds per node. It waits for the node before it on its actor, and for what
  /// it needs.
  TaskGraph tasks(double seconds = 0) const;
  /// Nodes in an order that all needs and all actors' orders allow; shorter than size() if they
  /// form a cycle.
  std::vector<int> order() const;
  /// The nodes of a cycle of "needs" and "stands behind", if there is one: each waits for the next,
  /// the last for the first.
  std::vector<int> find_cycle() const;

 private:
  int& slot(ActionKind kind, int stage, int microbatch);
  int lookup(ActionKind kind, int stage, int microbatch) const;
  void place(int node);
  void add_needs(int node, std::span<const std::vector<int>> into,
                 std::span<const std::vector<int>> out_of, std::span<const StageEdge> edges);
  void add_backward_needs(int node, std::span<const int> out_of_stage,
                          std::span<const StageEdge> edges);
  void need(int node, ActionKind kind, int stage, int microbatch, int edge = -1);
  void need_all_microbatches(int node, ActionKind kind, int stage);
  /// Of the node's stage: weight gradients, and those of the vocabulary passes that it names.
  void need_all_gradients(int node);
  /// Of the node's microbatch; nothing if no actor has the kind, a vocabulary pass.
  void need_all_actors(int node, ActionKind kind);

  /// The stages that name one of the vocabulary passes.
  std::vector<int>& stages_of(ActionKind pass) {
    return pass_stages_[static_cast<std::size_t>(pass) -
                        static_cast<std::size_t>(ActionKind::kVocabularyScores)];
  }

  static constexpr std::size_t kKinds =
      static_cast<std::size_t>(last_enumerator<ActionKind>::kValue) + 1;

  const Schedule& schedule_;
  std::vector<int> first_;
  std::vector<int> actor_;
  /// Per kind: (stage, microbatch) -> node, or -1; empty if no action has the kind.
  std::array<std::vector<int>, kKinds> nodes_;
  /// Of the vocabulary passes, from S on: the stages that name them, one for each actor.
  std::array<std::vector<int>, 4> pass_stages_;
  std::vector<Need> needs_;
  std::vector<int> need_begin_;
  std::vector<Missing> missing_;
};

/// "actor 1: 1F3 waits for 0F3 of actor 0; actor 0: 0F3 stands behind 0B0; ..." for a cycle of
/// find_cycle().
std::string describe_cycle(const ActionGraph& graph, std::span<const int> cycle);

}  // namespace weft::mesh

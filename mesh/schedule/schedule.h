#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mesh/schedule/action.h"

namespace weft::mesh {

/// Pipeline schedule: the ordered actions of one training step, per actor (a mesh). Data, not code:
/// communication is inferred.
struct Schedule {
  std::string name;
  int stages = 0;
  int microbatches = 0;
  std::vector<int> actor_of_stage;
  std::vector<std::vector<Action>> actors;
  /// Number of vocabulary barriers before the last stage's backward. 0: no vocabulary passes. 1: it
  /// starts after all S of its microbatch, whose exchange also sums the input gradient. 2: it
  /// starts after all T. See VocabularyMode.
  int vocabulary_barriers = 0;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Returns the index behind the compound that begins at `first`. An action that no other joins is a
/// compound of its own.
std::size_t end_of_compound(std::span<const Action> actions, std::size_t first);

/// Returns whether the schedule has a compound of several actions.
bool has_compounds(const Schedule& schedule);

/// Removes actions. What is left of a compound stays a compound.
void erase_actions(std::vector<Action>& actions,
                   const std::function<bool(const Action&)>& is_erased);

/// Returns the number of actors, which are numbered from 0. The placement must not be empty.
int num_actors(std::span<const int> actor_of_stage);

/// Prints one line per actor: "actor 0: 0F0 0F1 0B0 ...". Compounds are in parentheses:
/// "(0F7;7B3)".
std::string to_string(const Schedule& schedule);

/// Data dependency of stage `to` on stage `from`. Any two stages may be joined; an edge that skips
/// stages is a skip connection.
struct StageEdge {
  int from = 0;
  int to = 0;
  std::uint64_t bytes = 0;  ///< Size of one microbatch's tensor, and of its gradient.
  friend bool operator==(const StageEdge&, const StageEdge&) = default;
};

/// Returns the edges 0 -> 1 -> 2 ...
std::vector<StageEdge> chain_edges(int stages, std::uint64_t bytes = 0);

/// Checks that every stage has a forward and a backward (B, or one I and one W) of every microbatch
/// exactly once, on its own actor. Checks that the order satisfies every data edge (forward along
/// edges, input gradients against them), that weight gradients are in microbatch order, and
/// check_vocabulary_passes(). Throws Error(kInvalidArgument) with the actor, the action and, for a
/// deadlock, the cycle of waits. With `training` false, the schedule must have forwards only.
void validate(const Schedule& schedule, std::span<const StageEdge> edges, bool training = true);

/// Checks the parts of validate() that do not concern order: placement, counts, and that all
/// dependencies of an action exist. Throws as validate() does.
void check_complete(const Schedule& schedule, std::span<const StageEdge> edges,
                    bool training = true);

/// Describes where a stage's weight gradients are not in microbatch order; "" if they are.
std::string find_sum_order_violation(const Schedule& schedule);

/// Function that returns the ordered tasks of an actor for a number of microbatches. Empty slots
/// are ignored: start times follow from the data.
using TaskFunction = std::function<std::vector<std::optional<Action>>(int actor, int microbatches)>;

/// Builds a custom schedule: calls `tasks` for every actor and validates the result against the
/// chain of stages. Other dependencies between stages and all communication are inferred from the
/// graph. Throws as validate() does.
///
///   // two stages on two actors
///   make_task_schedule("mine", {0, 1}, 8, [](int actor, int m) { return ...; });
Schedule make_task_schedule(std::string name, std::vector<int> actor_of_stage, int microbatches,
                            const TaskFunction& tasks);

}  // namespace weft::mesh

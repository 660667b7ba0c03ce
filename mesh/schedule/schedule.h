#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mesh/schedule/action.h"

namespace weft::mesh {

/// A pipeline schedule: per actor (a mesh) the ordered actions of one training step. Data, not
/// code: communication is inferred.
struct Schedule {
  std::string name;
  int stages = 0;
  int microbatches = 0;
  std::vector<int> actor_of_stage;
  std::vector<std::vector<Action>> actors;
  /// How vocabulary passes hold up the last stage's backward: 0 there are none, 1 it starts after
  /// all S of its microbatch (the exchange also sums the input gradient), 2 after all T. See
  /// VocabularyMode.
  int vocabulary_barriers = 0;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Stages lie on actors 0, 1, ...: how many there are. Not of an empty placement.
int num_actors(std::span<const int> actor_of_stage);

/// One line per actor: "actor 0: 0F0 0F1 0B0 ...". Compounds stand in brackets: "(0F7;7B3)".
std::string to_string(const Schedule& schedule);

/// A dependency between stages: what `from` produces, `to` needs. Any two stages may be joined; an
/// edge that jumps over stages is a skip connection.
struct StageEdge {
  int from = 0;
  int to = 0;
  std::uint64_t bytes = 0;  ///< One microbatch's tensor, and its gradient on the way back.
  friend bool operator==(const StageEdge&, const StageEdge&) = default;
};

/// 0 -> 1 -> 2 ...
std::vector<StageEdge> chain_edges(int stages, std::uint64_t bytes = 0);

/// Checks that every stage has a forward and a backward (B, or one I and one W) of every microbatch
/// exactly once, each on its own actor, in an order that every data edge allows (forward along
/// edges, input gradients against them), weight gradients in microbatch order, and vocabulary
/// passes as check_vocabulary_passes() wants them. Throws
/// Error(kInvalidArgument) naming actor, action and, for a deadlock, the cycle of waits. `training`
/// false: forwards only.
void validate(const Schedule& schedule, std::span<const StageEdge> edges, bool training = true);

/// The part of validate() that has nothing to do with order: placement, counts, and that whatever
/// an action needs is there. Throws alike.
void check_complete(const Schedule& schedule, std::span<const StageEdge> edges,
                    bool training = true);

/// Where a stage's weight gradients are not in microbatch order, or "".
std::string find_unordered_sum(const Schedule& schedule);

/// A schedule of one's own: the ordered tasks of an actor for so many microbatches. Idle slots may
/// be left empty; they are only for the reader, as when a task starts follows from the data.
using TaskFunction = std::function<std::vector<std::optional<Action>>(int actor, int microbatches)>;

/// Asks `tasks` for every actor and validates the result against the chain of stages: what stages
/// need of each other on top of that, and all communication, is inferred from the graph. Throws as
/// validate() does.
///
///   // two stages on two actors
///   make_task_schedule("mine", {0, 1}, 8, [](int actor, int m) { return ...; });
Schedule make_task_schedule(std::string name, std::vector<int> actor_of_stage, int microbatches,
                            const TaskFunction& tasks);

}  // namespace weft::mesh

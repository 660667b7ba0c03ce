#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/program/step_list.h"
#include "mesh/schedule/action.h"

namespace weft::mesh {

/// Step that an action runs on a mesh.
struct ActionStep {
  enum class Round : std::uint8_t { kFirst, kRecompute };
  enum class Part : std::uint8_t {
    kWhole,
    kWithoutSend,  ///< The step's results are not sent to other meshes yet.
    kSend,         ///< Only that send, once the results have arrived.
  };
  std::size_t step = 0;  ///< Index into MeshPartition::steps.
  Round round = Round::kFirst;
  Part part = Part::kWhole;
  bool is_bound = false;     ///< True if the next step follows at once: one op may replace both.
  std::uint32_t member = 0;  ///< Index of the action in its compound.
  /// Index into ActionList::steps of a move that must have arrived before this one starts; -1: no
  /// move.
  std::int32_t awaited = -1;
  friend bool operator==(const ActionStep&, const ActionStep&) = default;
};

/// Actions that run the same steps: those of a kind on a stage. But gradients may be reduced during
/// the last microbatch only, and parameters may be gathered during the first one only.
struct ListedAction {
  StageId stage;
  ActionKind kind = ActionKind::kForward;
  bool is_first_microbatch = false;
  bool is_last_microbatch = false;
  /// Number of the microbatch among those of the compound, in the order of the members.
  int microbatch = 0;
  /// True if an earlier member is the forward of its stage and microbatch: its values exist, so
  /// nothing is recomputed.
  bool follows_forward = false;
  friend auto operator<=>(const ListedAction&, const ListedAction&) = default;
};

/// Members of a compound; one for an action that is in none.
using ActionListKey = std::vector<ListedAction>;

/// Returns the key of the list of a compound, in a step of so many microbatches. The partition has
/// the stages of all members.
ActionListKey list_key(const Partition& partition, std::span<const Action> members,
                       int microbatches);

/// Steps of a compound in the order in which all devices of its mesh run them.
struct ActionList {
  std::vector<ActionStep> steps;
  /// The graph that was ordered. Ops that one op replaces are one step. Empty if the compound keeps
  /// the order of the model's graph without a list.
  ListedSteps graph;
  /// Steps behind each step of `graph`; none behind a reduction of gradients, which starts itself.
  std::vector<std::vector<ActionStep>> members;
  StepList list;
  /// Seconds of the graph if the members run one after the other, each by its own list.
  double one_by_one_seconds = 0;
};

/// Lists of one mesh.
using ActionListMap = std::map<ActionListKey, ActionList>;

}  // namespace weft::mesh

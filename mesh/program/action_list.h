#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
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
  bool is_bound = false;  ///< True if the next step follows at once: one op may replace both.
  friend bool operator==(const ActionStep&, const ActionStep&) = default;
};

/// Actions that have one list: those of a kind on a stage, except that gradients may be reduced
/// during the last microbatch only, and that parameters may be gathered during the first one only.
struct ActionListKey {
  StageId stage;
  ActionKind kind = ActionKind::kForward;
  bool is_first_microbatch = false;
  bool is_last_microbatch = false;
  friend auto operator<=>(const ActionListKey&, const ActionListKey&) = default;
};

/// Steps of an action in the order in which all devices of its mesh run them.
struct ActionList {
  std::vector<ActionStep> steps;
  /// The graph that was ordered. Ops that one op replaces are one step. Empty if the action keeps
  /// the order of the model's graph without a list.
  ListedSteps graph;
  /// Steps behind each step of `graph`; none behind a reduction of gradients, which starts itself.
  std::vector<std::vector<ActionStep>> members;
  StepList list;
};

/// Lists of one mesh.
using ActionListMap = std::map<ActionListKey, ActionList>;

}  // namespace weft::mesh

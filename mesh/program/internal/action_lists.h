#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "mesh/program/action_list.h"
#include "mesh/program/compile.h"
#include "mesh/program/internal/action_steps.h"
#include "mesh/program/internal/gradient_reduction.h"
#include "mesh/program/step_seconds.h"

namespace weft::mesh {

/// Orders of the steps of one mesh's actions. The order depends on the mesh alone, so all its
/// devices start their collectives in one order.
///
/// Weight gradients, and forward ops that nothing waits for, move into the waits for collectives
/// (see list_steps). Some steps stay as they are:
///  - Ops that one op replaces (core/ops/fusion.h) are found in the order of the graph and stay
///    together. So Emitter::finish replaces them in any order, by the same kernels.
///  - A reduction of gradients follows the last step that computes one of its bucket.
///  - A value that a collective makes is sent to other meshes once it has arrived, so that the
///    device does not wait for it.
/// The spanning mesh, safe mode, and a compilation without times of ops keep the order of the
/// graph.
class ActionLists {
 public:
  /// `sent`: values that leave the mesh. `held`: stages whose reductions a schedule places. Borrows
  /// all arguments but `sent` and `held`.
  ActionLists(MeshView mesh, const ActionSteps& steps, const GradientSums& sums,
              const GradientReduction& reduction, std::set<LocalId> sent, std::set<StageId> held,
              int microbatches, const transfer::Topology& topology, const CompileOptions& options);

  /// Returns the list of an action of `stage`, which is on this mesh; see ActionSteps::of.
  const ActionList& of(StageId stage, ActionKind kind, int microbatch);
  /// Returns all lists that were asked for, and those of F, I, W and B amid a training step. Empty
  /// if all actions keep the order of the graph.
  ActionListMap take();

 private:
  const ActionList& of(const ActionListKey& key);
  ActionList make(const ActionListKey& key);

  const MeshView mesh_;
  const ActionSteps& steps_;
  const GradientSums& sums_;
  const GradientReduction& reduction_;
  const std::set<LocalId> sent_;
  const std::set<StageId> held_;
  const int microbatches_;
  const bool orders_;  ///< False if all actions keep the order of the graph.
  std::optional<StepSeconds> seconds_;
  /// Steps that read a value, by value.
  IndexedVector<LocalId, std::vector<std::size_t>> readers_;
  ActionListMap lists_;
};

}  // namespace weft::mesh

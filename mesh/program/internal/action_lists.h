#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "mesh/program/action_list.h"
#include "mesh/program/compile.h"
#include "mesh/program/internal/action_steps.h"
#include "mesh/program/internal/gradient_reduction.h"
#include "mesh/program/internal/parameter_copies.h"
#include "mesh/program/step_seconds.h"

namespace weft::mesh {

/// Orders of the steps of one mesh's compounds. The order depends on the mesh alone, so all its
/// devices start their collectives in one order.
///
/// Weight gradients, and forward ops that nothing waits for, move into the waits for collectives
/// (see list_steps). Some steps stay as they are:
///  - Ops that one op replaces (core/ops/fusion.h) are found in the order of the graph and stay
///    together. So Emitter::finish replaces them in any order, by the same kernels.
///  - A reduction of gradients follows the last step that computes one of its bucket.
///  - A value that a collective makes is sent to other meshes once it has arrived, so that the
///    device does not wait for it.
///  - The members of a compound add to a sum one after the other. They share copies of parameters.
/// Members run one after the other, each by its own list, if interleaving them gains little.
/// The spanning mesh, safe mode, and a compilation without times of ops keep the order of the
/// graph.
class ActionLists {
 public:
  /// `sent`: values that leave the mesh. `held`: stages whose reductions a schedule places. Borrows
  /// all arguments but `sent` and `held`.
  ActionLists(MeshView mesh, const ActionSteps& steps, const ParameterCopies& copies,
              const GradientSums& sums, const GradientReduction& reduction, std::set<LocalId> sent,
              std::set<StageId> held, const Schedule& schedule, const transfer::Topology& topology,
              const CompileOptions& options);

  /// Returns the list of a compound, whose stages are on this mesh; see ActionSteps::of.
  const ActionList& of(std::span<const Action> members);
  /// Returns all lists that were asked for, and those amid a training step: of F, I, W and B, and
  /// of the schedule's compounds. Empty if all actions keep the order of the graph.
  ActionListMap take();

 private:
  const ActionList& of(const ActionListKey& key);
  ActionList make(const ActionListKey& key);
  /// Returns the buckets whose reductions start during the compound.
  std::vector<std::size_t> reduced_buckets(const ActionListKey& key) const;

  const MeshView mesh_;
  const ActionSteps& steps_;
  const ParameterCopies& copies_;
  const GradientSums& sums_;
  const GradientReduction& reduction_;
  const std::set<LocalId> sent_;
  const std::set<StageId> held_;
  const Schedule& schedule_;
  const bool orders_;  ///< False if all actions keep the order of the graph.
  std::optional<StepSeconds> seconds_;
  /// Steps that read a value, by value.
  IndexedVector<LocalId, std::vector<std::size_t>> readers_;
  ActionListMap lists_;
};

}  // namespace weft::mesh

#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "mesh/program/action_list.h"
#include "mesh/program/internal/mesh_view.h"
#include "mesh/program/recomputation.h"
#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Steps that each action of a schedule runs on one mesh, in the order of the graph. A value, apart
/// from the partition that it borrows.
///
/// Two rules change the plain order of steps_of(). A stage that recomputes drops its activations
/// after the forward and reruns some forward steps in its R, or at the start of its backward. The
/// steps of an S that depend on the exchange of statistics run later, as one group.
class ActionSteps {
 public:
  /// `actor`: the actor of the mesh's stages; ignored for the spanning mesh, which never
  /// recomputes. `recompute`: see CompileOptions.
  ActionSteps(MeshView mesh, const Schedule& schedule, int actor,
              const std::vector<bool>& recompute);

  /// Returns the steps of an action of `stage`, which is on this mesh. Excludes the deferred steps
  /// of an S, but a T begins with them if the schedule has two barriers.
  std::vector<ActionStep> of(StageId stage, ActionKind kind) const;
  /// Returns the deferred steps of an S.
  std::vector<ActionStep> deferred() const;
  /// Returns the activations that the stage drops after its forward; empty if it keeps all.
  const std::set<LocalId>& dropped(StageId stage) const;
  /// Returns whether the step runs in a recomputation too.
  bool is_recomputed(std::size_t step) const;

 private:
  struct Recomputation {
    RecomputedSteps what;
    std::vector<std::size_t> order;  ///< Order in which `what.steps` run.
    /// True if the schedule has an R; otherwise the steps rerun at the start of the backward.
    bool scheduled = false;
    bool runs_before(ActionKind kind) const {
      return scheduled ? kind == ActionKind::kRecompute : gives_input_grad(kind);
    }
  };
  void find_recomputations(const Schedule& schedule, int actor, const std::vector<bool>& recompute);

  const MeshView mesh_;
  const int barriers_;  ///< Vocabulary barriers of the schedule.
  std::map<StageId, Recomputation> recomputations_;
  /// Steps of the output layer that depend on the exchange of statistics, in order.
  std::vector<std::size_t> deferred_;
};

}  // namespace weft::mesh

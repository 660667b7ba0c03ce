#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mesh/program/internal/action_lists.h"
#include "mesh/program/internal/action_steps.h"
#include "mesh/program/internal/gradient_reduction.h"
#include "mesh/program/internal/gradient_terms.h"
#include "mesh/program/internal/mesh_edges.h"
#include "mesh/program/internal/parameter_copies.h"

namespace weft::mesh {

/// Emits the actions of a schedule on one mesh: ops, moves within the mesh, sums of gradients, and
/// sends to other meshes.
///
/// Emits each action for all devices of its actor side by side: they differ only in regions, in the
/// devices that send, and in the devices that add a bias.
class ActionEmitter {
 public:
  /// Adds the transfers of moves and the losses to the programs. Borrows all arguments.
  ActionEmitter(MeshView mesh, const MeshEmitters& emitters, const Schedule& schedule,
                const ActionSteps& steps, const ParameterCopies& copies, ActionLists& lists,
                MeshBuffers& buffers, GradientSums& sums, GradientReduction& reduction,
                GradientTerms& terms, MeshEdges& edges, const CompileOptions& options);

  /// Callbacks of emit().
  struct Hooks {
    /// Called before each step, with the index of the member that runs it.
    std::function<void(std::size_t member)> enter = {};
    /// Called after each step, with the fraction of the compound's time that has passed. Optional.
    std::function<void(double done)> between = {};
  };
  /// Emits the part of an actor's compound that runs on this mesh. Call for all compounds in order.
  void emit(int actor, std::span<const Action> members, const Hooks& hooks);
  /// Emits the second half of an actor's S, which follows the exchange of statistics.
  void emit_deferred_scores(int actor, int microbatch);

 private:
  using Round = ActionStep::Round;
  /// Microbatch and ranks for which an action runs its steps.
  struct ActionScope {
    int microbatch = 0;
    const std::vector<int>& ranks;
  };
  void add_move_transfers();
  void add_losses();
  /// Returns the stage of this mesh that the action runs; absent if the action runs elsewhere.
  std::optional<StageId> stage_here(const Action& action) const;
  /// Prepares the parts that act on whole compounds.
  void begin(std::span<const Action> members);
  /// Emits waits for all tensors from other meshes that the members read.
  void await_received(const std::vector<ActionStep>& steps, const std::vector<ActionScope>& scopes);
  /// Emits the waits for the moves of a step, unless they were emitted before.
  void await_results(const ActionStep& one, const ActionScope& scope);
  /// Gives the copy of a parameter that another member has made to this one too. Returns whether
  /// there is one.
  bool share_copy(LocalId copy, const ActionScope& scope);
  double nominal_seconds_of(const ActionStep& one) const;

  /// Starts the reductions and sends of complete gradients.
  void start_complete();
  void emit_step(const ActionStep& one, const ActionScope& scope);
  void emit_compute(const ComputeStep& step, Round round, const ActionScope& scope);
  std::vector<std::uint32_t> inputs_of_op(const ComputeStep& step, int microbatch, int rank);
  /// Returns the buffer of an output that is not added to a gradient sum directly.
  std::uint32_t output_buffer(LocalId output, Round round, int microbatch, int rank);
  void emit_move(std::size_t step, Round round, const ActionScope& scope);
  void add_gradient(LocalId id, const ActionScope& scope);

  const MeshView mesh_;
  const MeshEmitters& emitters_;
  const Schedule& schedule_;
  const ActionSteps& steps_;
  const ParameterCopies& copies_;
  ActionLists& lists_;
  MeshBuffers& buffers_;
  GradientSums& sums_;
  GradientReduction& reduction_;
  GradientTerms& terms_;
  MeshEdges& edges_;
  const CompileOptions& options_;
  /// Index into Program::transfers, by step and rank; empty for steps without communication.
  std::vector<std::vector<std::uint32_t>> move_transfers_;
  /// Likewise, for recomputations. A move has a second transfer there, as it runs twice for the
  /// same microbatch.
  std::vector<std::vector<std::uint32_t>> recompute_transfers_;
  /// Index into Program::persistents, by rank; empty if the loss is on another mesh.
  std::vector<std::int32_t> losses_;
  /// Buffers of the copies of parameters that the current compound has made, by rank; by the first
  /// equal copy. Empty during a compound of one member.
  std::map<LocalId, std::vector<std::uint32_t>> shared_copies_;
  bool shares_copies_ = false;  ///< True during a compound of several members.
};

}  // namespace weft::mesh

#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mesh/program/compile.h"
#include "mesh/program/emitter.h"
#include "mesh/program/lanes.h"
#include "mesh/program/move_plans.h"
#include "mesh/program/recomputation.h"

namespace weft::mesh {

/// Allocator of transfer numbers (Transfer::op). Keeps the plans of transfers within a mesh.
class TransferNumbers {
 public:
  std::uint32_t next() { return next_++; }
  template <typename Plan>
  std::uint32_t add_in_mesh(const Plan& plan) {
    in_mesh_.push_back({next_, plan});
    return next_++;
  }
  int count() const { return next_; }
  std::vector<InMeshTransfer> take_in_mesh() { return std::exchange(in_mesh_, {}); }

 private:
  std::uint32_t next_ = 0;
  std::vector<InMeshTransfer> in_mesh_;
};

/// In safe mode: a tensor to be sent to another mesh once all its devices have computed it.
struct OutgoingTensor {
  std::size_t edge = 0;
  int microbatch = 0;
  std::map<int, std::uint32_t> sources;  ///< Sending buffers, by rank.
};

class MeshCompiler;
using MeshCompilers = IndexedVector<MeshId, std::unique_ptr<MeshCompiler>>;

/// Compiler of one mesh's part of its devices' programs. Emits each action for all devices of its
/// actor side by side: they differ only in regions, in who sends and in who adds a bias. A device
/// of the spanning mesh has parts of two meshes in its program. Used once.
class MeshCompiler {
 public:
  /// `actors` is indexed by rank, `lanes` by edge, `emitters` by DeviceId.
  MeshCompiler(const Partition& partition, MeshId mesh, const Schedule& schedule,
               const std::vector<int>& actors, const std::vector<PlannedEdge>& edges,
               const std::vector<Lane>& lanes, const transfer::Topology& topology,
               const CompileOptions& options, TransferNumbers& ops,
               std::map<transfer::DeviceId, Emitter>& emitters);

  /// Sets the compilers of all meshes. Call before anything is emitted.
  void set_compilers(const MeshCompilers& all) { all_ = &all; }
  /// Returns whether the actor runs devices of this mesh.
  bool has_ranks_of(int actor) const { return ranks_of_actor_.contains(actor); }
  /// Posts the first receives of the actor. With lanes only; call before the actor's first action.
  void post_first_receives(int actor);
  /// Callback after each step of an action, with the share of the action's time that has passed.
  using Between = std::function<void(double done)>;
  /// Emits the part of an actor's action that runs on this mesh. Call for all actions in order.
  void emit_action(ActionPlace place, const Between& between = {});
  /// Emits the second half of an actor's S, which follows the exchange of statistics.
  void emit_deferred_scores(int actor, int microbatch);
  /// Posts the receives and waits that the end of an actor's action allows, on whichever mesh it
  /// ran. With lanes only.
  void finish_action(ActionPlace place);
  /// Returns the tensors that are ready to be sent to other meshes. Safe mode only.
  std::vector<OutgoingTensor> take_ready_tensors() { return std::exchange(outgoing_, {}); }
  /// Emits start and wait of a transfer on this mesh's side. Safe mode only.
  void emit_blocking_transfer(const OutgoingTensor& outgoing);
  /// Emits the reduction of gradients and the exchange of terms of shared parameters, at the end of
  /// a training step.
  void emit_gradients(const std::vector<TermTransfer>& terms);

 private:
  /// This mesh's side of an edge.
  struct EdgeSide {
    std::size_t edge = 0;
    bool sends = false;
    std::vector<std::size_t> posted;  ///< Receives started so far, by rank.
    /// Index into Program::transfers, by rank. Absent if the device takes no part, or if this is
    /// the receiving side and the device also sends on the edge.
    std::vector<std::optional<std::uint32_t>> transfer;
  };
  /// Activations that a recomputing stage drops after its forward, and the steps it reruns before
  /// its backward.
  struct Recomputation {
    RecomputedSteps what;
    std::vector<std::size_t> order;  ///< Order in which `what.steps` run.
    /// True if the schedule has an R; otherwise the steps rerun at the start of the backward.
    bool scheduled = false;
    bool runs_before(ActionKind kind) const {
      return scheduled ? kind == ActionKind::kRecompute : gives_input_grad(kind);
    }
  };
  enum class EmitRound : std::uint8_t { kFirst, kRecompute };
  /// Reduction that a group of gradient sums shares.
  struct ReductionGroup {
    std::vector<int> axes;  ///< Axes over which the sums are partial at the end of the step.
    /// Subset of `axes` that shard the parameters further, outermost first. Reduce-scatter over
    /// them leaves each device its own part of the sum.
    std::vector<int> scattered;
    friend auto operator<=>(const ReductionGroup&, const ReductionGroup&) = default;
  };
  /// Persistent block of all sums that share a reduction, stage by stage, so that one all-reduce
  /// covers all that are reduced together.
  struct SumBlock {
    std::string name;
    std::uint64_t bytes = 0;
    /// Begin and end of each stage's sums, in bytes.
    std::map<StageId, std::pair<std::uint64_t, std::uint64_t>> stages;
  };
  /// Accumulator of one term of a parameter's gradient, on every rank.
  struct GradientSum {
    std::size_t parameter = 0;  ///< Index into part_.parameters.
    GradientTerm term;
    std::vector<std::uint32_t> buffers;  ///< Accumulators, by rank.
    bool direct = false;        ///< True if the op that computes the term accumulates it itself.
    std::vector<bool> started;  ///< True once the first microbatch has written, by rank.
    StageId stage;              ///< Stage that computes the term.
    ReductionGroup alike;
    /// After a reduce-scatter: this parameter's part of the whole sum, by rank.
    std::vector<std::uint32_t> reduced = {};
  };
  /// Bucket of sums after a reduce-scatter that are still partial over other axes.
  struct ReducedBucket {
    std::string name;
    TensorType type;
    std::vector<int> axes;
    std::vector<std::uint32_t> buffers;  ///< Parts of the sum, by rank.
  };

  int num_ranks() const { return mesh_.size(); }
  const LocalValue& local(LocalId id) const { return part_.locals[id]; }
  TensorType local_type(LocalId id, int rank) const;
  /// Returns the type of the optimizer's value, of the moments and of the gradient: f32, in the
  /// parameter's spec.
  TensorType state_type(LocalId parameter, int rank) const;
  std::string value_name(LocalId id) const;

  void make_parameters();
  void make_gradient_sums();
  /// Returns the values that some step reads or that leave the mesh.
  std::set<LocalId> values_read() const;
  /// Returns whether each output is the only term of a gradient and is not in `read`.
  bool only_gradients(const ComputeStep& step, const std::set<LocalId>& read) const;
  void make_inputs();
  void add_edge_sides();
  void make_step_transfers();
  void make_losses();
  void make_recomputations();
  void make_deferred_scores();

  /// Makes the actor's ranks the active ranks of emission.
  void set_active_actor(int actor) { active_ = &ranks_of_actor_.at(actor); }
  /// Returns the stage of this mesh that the action runs; absent if the action runs elsewhere.
  std::optional<StageId> stage_here(const Action& action) const;
  /// Returns whether this is the spanning mesh, whose devices belong to several actors.
  bool spans() const { return partition_.spans(mesh_id_); }
  Emitter& emitter(int rank) { return *emitters_[rank]; }

  /// Returns the device's receiving buffer if it both sends and receives on the edge.
  std::optional<std::uint32_t> destination_here(const EdgeSide& end, int microbatch, int rank);
  void wait_for_all();
  /// Step that an action runs on this mesh.
  struct ActionStep {
    std::size_t step = 0;
    EmitRound round = EmitRound::kFirst;
  };
  std::vector<ActionStep> steps_of_action(StageId stage, ActionKind kind) const;
  double nominal_seconds_of(const ActionStep& one) const;
  void emit_step(std::size_t step, int microbatch, EmitRound round = EmitRound::kFirst);
  /// Returns the op for this rank; ops that depend on the position of their slice differ by rank.
  Op op_of(const ComputeStep& step, int rank) const;
  void emit_compute(const ComputeStep& step, int microbatch, EmitRound round);
  void emit_move(std::size_t step, int microbatch, EmitRound round);
  void send(LocalId local, int microbatch);
  void post_receives(EdgeSide& end, int rank, std::size_t up_to);
  void add_gradient(LocalId local, int microbatch);
  std::uint32_t instance(LocalId local, int microbatch, int rank);

  // Communication within the mesh. The functions return transfer indices by rank.
  std::vector<std::uint32_t> add_group_plans(const std::string& name, TransferPurpose kind,
                                             const std::vector<GroupPlan>& plans);
  /// Adds the transfers of a move of a tensor of the logical type `type`. The move is not a slice.
  std::vector<std::uint32_t> add_move(const std::string& name, const TensorType& type,
                                      const Move& move);
  /// Adds the transfers of a communicating step. Returns an empty vector for other steps.
  std::vector<std::uint32_t> add_step_transfer(const Step& step, const std::string& suffix);
  /// Emits a copy of the part `kept` of `held`; they differ in at most one dimension.
  void emit_slice(int rank, const Region& held, const Region& kept, std::uint32_t source,
                  std::uint32_t destination);
  /// Emits a slicing move on all active ranks. Buffers are indexed by rank.
  void slice(const TensorType& type, const Move& move, const std::vector<std::uint32_t>& sources,
             const std::vector<std::uint32_t>& destinations);
  /// Starts the reduction of the gradients of these stages.
  void start_reduction(const std::set<StageId>& stages);
  /// Returns the axes over which a gradient can be reduce-scattered into its parameter's spec: axes
  /// that split one dimension of the parameter further. Empty if other moves are needed.
  static std::vector<int> scattered_axes(const Spec& gradient, const Spec& wanted);
  void size_buckets();
  /// Emits reduce-scatters of the stages' sums, bucket by bucket.
  void scatter(const ReductionGroup& alike, const std::set<StageId>& stages);
  /// Emits one reduce-scatter. `elements`: size of each device's part of all sums of the bucket.
  void scatter_bucket(const ReductionGroup& alike, const std::vector<std::size_t>& bucket,
                      std::int64_t elements);
  /// Emits copies of the sums into the bucket, ordered by receiving rank.
  void fill_bucket(const std::vector<std::size_t>& bucket, int rank, const std::vector<int>& group,
                   std::int32_t block, std::int32_t result, std::int64_t elements);
  /// Emits the all-reduces of sums that are still partial after their reduce-scatter.
  void finish_reduction();
  LocalId local_of(const GradientSum& sum) const { return part_.parameters[sum.parameter].value; }
  /// Returns the buffers of a fully reduced term in the parameter's spec, by rank.
  std::vector<std::uint32_t> final_term(std::size_t sum);
  /// Returns the gradient buffers of part_.parameters, each by rank. Emits the transfers of terms
  /// of other meshes and the sum of all terms.
  std::vector<std::vector<std::uint32_t>> final_gradients(const std::vector<TermTransfer>& terms);
  std::string term_block(std::size_t parameter, int term) const;

  const Partition& partition_;
  const MeshId mesh_id_;
  const Schedule& schedule_;
  const std::vector<int> actor_of_rank_;
  std::map<int, std::vector<int>> ranks_of_actor_;
  const DeviceMesh& mesh_;
  const MeshPartition& part_;
  const std::vector<PlannedEdge>& edges_;
  const std::vector<Lane>& lanes_;
  const transfer::Topology& topology_;
  const CompileOptions& options_;
  TransferNumbers& ops_;

  std::vector<Emitter*> emitters_;
  const MeshCompilers* all_ = nullptr;
  const std::vector<int>* active_ = nullptr;
  std::vector<int> all_ranks_;
  /// Buffers by (value, microbatch), per rank.
  std::vector<std::map<std::pair<LocalId, int>, std::uint32_t>> instances_;
  /// Buffers that ops read, by parameter, per rank.
  std::vector<std::map<LocalId, std::uint32_t>> parameters_;
  /// Index into Program::inputs, by (value, rank).
  std::map<std::pair<LocalId, int>, std::uint32_t> inputs_;
  std::vector<EdgeSide> edge_sides_;
  /// Handles of sends in flight, by rank. Keyed by Lane::arrival_known_at: after that action,
  /// waiting for the send does not block.
  std::vector<std::multimap<std::size_t, std::uint32_t>> unfinished_;
  std::vector<OutgoingTensor> outgoing_;
  /// In safe mode: tensors that not all devices have computed yet, by (edge, microbatch).
  std::map<std::pair<std::size_t, int>, OutgoingTensor> incomplete_;
  /// Steps of a sharded vocabulary's output layer that depend on the exchange of statistics.
  std::set<std::size_t> deferred_scores_;
  std::map<StageId, Recomputation> recomputations_;
  /// Transfers of the recomputation, as step_transfer_.
  std::vector<std::vector<std::uint32_t>> recompute_transfers_;
  /// Index into Program::transfers, per step and rank; empty for computing steps.
  std::vector<std::vector<std::uint32_t>> step_transfer_;
  /// Indices into sums_, by gradient value.
  std::map<LocalId, std::vector<std::size_t>> gradients_of_;
  /// Ordered by parameter, then term.
  std::vector<GradientSum> sums_;
  std::map<ReductionGroup, SumBlock> sum_blocks_;
  std::vector<ReducedBucket> still_partial_;
  /// Staging block of a reduce-scatter, where sums are ordered by receiving rank.
  struct Bucket {
    std::vector<std::uint32_t> under_way;  ///< Handles of its transfer, by rank.
  };
  std::array<Bucket, 2> buckets_;
  std::uint64_t bucket_bytes_ = 0;  ///< Size of each bucket.
  int num_buckets_ = 0;             ///< Number of buckets started so far.
  /// Stages of this mesh whose gradients are still partial.
  std::set<StageId> unreduced_;
  /// Index into Program::persistents, by rank; -1 if the rank has no losses.
  std::vector<std::int32_t> losses_;
};

}  // namespace weft::mesh

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

/// Hands out the numbers by which all participants know a transfer, and keeps the plans of those
/// within a mesh.
class TransferOps {
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

/// In safe mode: a tensor that is to go to another mesh when all its devices have made it.
struct OutgoingTensor {
  std::size_t edge = 0;
  int microbatch = 0;
  std::map<int, std::uint32_t> sources;  ///< The senders' buffers, by rank.
};

class MeshCompiler;
using MeshCompilers = IndexedVector<MeshId, std::unique_ptr<MeshCompiler>>;

/// Compiles one mesh's part of its devices' programs: emits what an action does for all devices of
/// its actor side by side, as they differ only in regions, in who sends and in who adds a bias. The
/// programs are the devices', and a device of a mesh that spans others has parts of two meshes in
/// its program. Used once.
class MeshCompiler {
 public:
  /// `actors`: by rank. `lanes`: by edge. `emitters`: by DeviceId.
  MeshCompiler(const Partition& partition, MeshId mesh, const Schedule& schedule,
               const std::vector<int>& actors, const std::vector<PlannedEdge>& edges,
               const std::vector<Lane>& lanes, const transfer::Topology& topology,
               const CompileOptions& options, TransferOps& ops,
               std::map<transfer::DeviceId, Emitter>& emitters);

  /// The compilers of all meshes: before anything is emitted.
  void meet(const MeshCompilers& all) { all_ = &all; }
  /// Whether the actor runs devices of this mesh.
  bool has_ranks_of(int actor) const { return ranks_of_actor_.contains(actor); }
  /// With lanes: before the first action of the actor.
  void post_first_receives(int actor);
  /// Called after each step of an action with the share of its time that is over by then.
  using Between = std::function<void(double done)>;
  /// Emits what the actor's action of this index does on this mesh; to be called for all of them in
  /// order.
  void emit_action(ActionPlace place, const Between& between = {});
  /// What an S of the actor leaves for when its exchange is over.
  void emit_rest_of_scores(int actor, int microbatch);
  /// With lanes: what follows from an action of the actor that is over, on whichever mesh it was.
  void action_is_over(ActionPlace place);
  /// In safe mode: what is now ready to go to other meshes.
  std::vector<OutgoingTensor> take_outgoing() { return std::exchange(outgoing_, {}); }
  /// In safe mode: the transfer from start to end, on whichever side this mesh is.
  void transfer_now(const OutgoingTensor& outgoing);
  /// Emits the end of a training step: reduces gradients and exchanges the terms of shared
  /// parameters.
  void emit_gradients(const std::vector<TermTransfer>& terms);

 private:
  /// This mesh's end of an edge.
  struct End {
    std::size_t edge = 0;
    bool sends = false;
    std::vector<std::size_t> posted;  ///< By rank: receives started so far.
    /// By rank. Nothing where the device has no part, or, of a receiver, is a sender too.
    std::vector<std::optional<std::uint32_t>> transfer;
  };
  /// What a stage that recomputes drops after its forward, and the steps that it runs again before
  /// its backward.
  struct Recomputation {
    RecomputedSteps what;
    std::vector<std::size_t> order;  ///< Of `what.steps`.
    bool scheduled = false;  ///< The schedule says when; else it is the beginning of the backward.
    bool before(ActionKind kind) const {
      return scheduled ? kind == ActionKind::kRecompute : gives_input_grad(kind);
    }
  };
  enum class Round : std::uint8_t { kFirst, kAgain };
  /// Sums that are reduced alike.
  struct SumsAlike {
    std::vector<int> axes;  ///< Over which they are partial at the end of the step.
    /// Of these, those over which the parameters are split on: each device gets its own part of the
    /// sum. Outer first.
    std::vector<int> scattered;
    friend auto operator<=>(const SumsAlike&, const SumsAlike&) = default;
  };
  /// Sums that are reduced alike lie side by side in one persistent block, stage by stage, so that
  /// one all-reduce adds all that are reduced together.
  struct SumBlock {
    std::string name;
    std::uint64_t bytes = 0;
    /// Begin and end in the block.
    std::map<StageId, std::pair<std::uint64_t, std::uint64_t>> stages;
  };
  /// Where a term of a parameter's gradient is summed, on every rank.
  struct GradientSum {
    std::size_t parameter = 0;  ///< Index into part_.parameters.
    GradientTerm term;
    std::vector<std::uint32_t> buffers;  ///< By rank.
    bool direct = false;                 ///< The op that computes it adds it there itself.
    std::vector<bool> started;           ///< By rank: the first microbatch has written.
    StageId stage;                       ///< Computes it.
    SumsAlike alike;
    /// Once it has been scattered: the parameter's part of the whole sum, by rank.
    std::vector<std::uint32_t> reduced = {};
  };
  /// A bucket of sums that were scattered, and are partial over other axes.
  struct StillPartial {
    std::string name;
    TensorType type;
    std::vector<int> axes;
    std::vector<std::uint32_t> buffers;  ///< By rank.
  };

  int num_ranks() const { return mesh_.size(); }
  const LocalValue& local(LocalId id) const { return part_.locals[id]; }
  TensorType local_type(LocalId id, int rank) const;
  /// Of the parameter's value in the optimizer, its moments and its gradient: f32, in the
  /// parameter's spec.
  TensorType state_type(LocalId parameter, int rank) const;
  std::string value_name(LocalId id) const;

  void make_parameters();
  void make_gradient_sums();
  /// Values that a step of the part reads, or that leave the mesh.
  std::set<LocalId> values_read() const;
  /// Whether each output is the one term of a gradient, and is none of `read`.
  bool only_gradients(const ComputeStep& step, const std::set<LocalId>& read) const;
  void make_inputs();
  void make_ends();
  void make_step_transfers();
  void make_losses();
  void make_recomputations();
  void make_rest_of_scores();

  /// The ranks that the actor runs are those of emission from now on.
  void turn_to(int actor) { active_ = &ranks_of_actor_.at(actor); }
  /// Whether this mesh has a part in what the action does, and of which stage.
  std::optional<StageId> stage_here(const Action& action) const;
  /// Whether its devices are other meshes', so that several actors run parts of it.
  bool spans() const { return partition_.spans(mesh_id_); }
  Emitter& emitter(int rank) { return *emitters_[rank]; }

  /// Where the device also is a receiver of the edge that it sends on: its buffer there.
  std::optional<std::uint32_t> destination_here(const End& end, int microbatch, int rank);
  void wait_for_all();
  /// What an action runs on this mesh.
  struct ActionStep {
    std::size_t step = 0;
    Round round = Round::kFirst;
  };
  std::vector<ActionStep> steps_of_action(StageId stage, ActionKind kind) const;
  double nominal_seconds_of(const ActionStep& one) const;
  void emit_step(std::size_t step, int microbatch, Round round = Round::kFirst);
  /// The op as this device runs it.
  Op op_of(const ComputeStep& step, int rank) const;
  void emit_compute(const ComputeStep& step, int microbatch, Round round);
  void emit_move(std::size_t step, int microbatch, Round round);
  void send(LocalId local, int microbatch);
  void post_receives(End& end, int rank, std::size_t up_to);
  void add_gradient(LocalId local, int microbatch);
  std::uint32_t instance(LocalId local, int microbatch, int rank);

  // Communication within the mesh. Each gives the transfer by rank.
  std::vector<std::uint32_t> add_group_plans(const std::string& name, TransferKind kind,
                                             const std::vector<GroupPlan>& plans);
  /// Of a tensor of `type`; not of a slice.
  std::vector<std::uint32_t> add_move(const std::string& name, const TensorType& type,
                                      const Move& move);
  /// Of a step that communicates; nothing for one that computes.
  std::vector<std::uint32_t> add_step_transfer(const Step& step, const std::string& suffix);
  /// Copies the part `kept` of `held`; they differ in one dimension at most.
  void emit_slice(int rank, const Region& held, const Region& kept, std::uint32_t source,
                  std::uint32_t destination);
  /// Copies what each device keeps. Buffers by rank.
  void slice(const TensorType& type, const Move& move, const std::vector<std::uint32_t>& sources,
             const std::vector<std::uint32_t>& destinations);
  /// Starts the reduction of the gradients of these stages.
  void start_reduction(const std::set<StageId>& stages);
  /// The axes over which a gradient is to be scattered, so that each device gets its parameter's
  /// part: those by which one dimension of the parameter is split further. None: other moves.
  static std::vector<int> scattered_axes(const Spec& gradient, const Spec& wanted);
  void size_buckets();
  /// Reduces sums of these stages, a bucket at a time.
  void scatter(const SumsAlike& alike, const std::set<StageId>& stages);
  /// One reduce-scatter of sums whose parts, per device, have `elements` in all.
  void scatter_bucket(const SumsAlike& alike, const std::vector<std::size_t>& bucket,
                      std::int64_t elements);
  /// Copies the sums into the bucket, ordered by who is to get them.
  void fill_bucket(const std::vector<std::size_t>& bucket, int rank, const std::vector<int>& group,
                   std::int32_t block, std::int32_t result, std::int64_t elements);
  /// Adds up what was scattered and is still partial.
  void finish_reduction();
  LocalId local_of(const GradientSum& sum) const { return part_.parameters[sum.parameter].value; }
  /// Where the whole of a term lies, in the parameter's spec.
  std::vector<std::uint32_t> final_term(std::size_t sum);
  /// Where the gradients of part_.parameters lie: their terms, of which those of other meshes
  /// arrive now, added up. By rank.
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
  TransferOps& ops_;

  std::vector<Emitter*> emitters_;  ///< By rank.
  const MeshCompilers* all_ = nullptr;
  const std::vector<int>* active_ = nullptr;
  std::vector<int> all_ranks_;
  /// Per rank: (value, microbatch) -> buffer.
  std::vector<std::map<std::pair<LocalId, int>, std::uint32_t>> instances_;
  /// Per rank: parameter -> buffer that ops read.
  std::vector<std::map<LocalId, std::uint32_t>> parameters_;
  /// Data inputs, by value and rank.
  std::map<std::pair<LocalId, int>, std::uint32_t> inputs_;
  std::vector<End> ends_;
  /// By rank: sends under way, by the action of its actor that need not wait for them long, nor
  /// those after it.
  std::vector<std::multimap<std::size_t, std::uint32_t>> unfinished_;
  std::vector<OutgoingTensor> outgoing_;
  /// In safe mode: those that not all devices have made yet.
  std::map<std::pair<std::size_t, int>, OutgoingTensor> incomplete_;
  /// Steps of a vocabulary's output layer that wait for what its devices exchange.
  std::set<std::size_t> rest_of_scores_;
  std::map<StageId, Recomputation> recomputations_;
  /// As step_transfer_, for the second round.
  std::vector<std::vector<std::uint32_t>> step_transfer_again_;
  /// Per step, per rank; empty for computing steps.
  std::vector<std::vector<std::uint32_t>> step_transfer_;
  /// Gradient value -> indices into sums_.
  std::map<LocalId, std::vector<std::size_t>> gradients_of_;
  /// Parameter by parameter, term by term.
  std::vector<GradientSum> sums_;
  std::map<SumsAlike, SumBlock> sum_blocks_;
  std::vector<StillPartial> still_partial_;
  /// Where sums lie in the order of who is to get them.
  struct Bucket {
    std::vector<std::uint32_t> under_way;  ///< Handles, by rank.
  };
  std::array<Bucket, 2> turns_;
  std::uint64_t bucket_bytes_ = 0;  ///< Of each.
  int buckets_ = 0;                 ///< Begun so far.
  /// Stages of this mesh whose gradients are still partial.
  std::set<StageId> unreduced_;
  /// Per rank: persistent block, or -1.
  std::vector<std::int32_t> losses_;
};

}  // namespace weft::mesh

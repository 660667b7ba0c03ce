#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mesh/schedule/schedule.h"
#include "mesh/schedule/vocabulary.h"

namespace weft::mesh {

/// Costs of a stage for one microbatch. Any unit of time and any unit of memory, the same for all
/// stages.
struct StageCosts {
  double forward = 1;      ///< Time of F
  double input_grad = 1;   ///< Time of I
  double weight_grad = 1;  ///< Time of W; a B takes I plus W, ...
  double hidden = 0;       ///< ... less this: W fills waits for collectives within I.
  double recompute = 0;    ///< Time of R
  /// Times of the actor's S, T, IF and IB, on the stage whose number they carry: a vocabulary is
  /// split over actors, not over stages.
  double vocabulary_scores = 0, vocabulary_grads = 0;
  double input_forward = 0, input_backward = 0;
  double reduce_grad = 0;  ///< Time of REDUCE_GRAD, once per step; overlaps computation.
  /// Layers whose parts of this reduction start one after the other, without a REDUCE_GRAD in the
  /// schedule: each when its gradient is complete. See late_reduction().
  int reduced_layers = 1;
  double last_layer_share = 1;  ///< Share of the reduction that the last of these parts has.
  /// Last microbatches during which these parts start: 1, or all if each is reduced by itself.
  int reduced_microbatches = 1;
  /// The time that late_reduction() returns, if it is known from the order of steps.
  std::optional<double> listed_late_reduction = {};
  double optimizer = 0;  ///< Time of OPT, once per step.
  /// Memory that F takes; freed when the input gradient ends, ...
  double activations = 1;
  /// ... except this part, which W frees.
  double for_weight_grad = 1;
  /// Memory that stays after F if the stage recomputes; R takes the rest again.
  double retained_for_recompute = 0;
  /// True if the stage's I and B begin with a recomputation. Ignored if the schedule has an R of
  /// the stage.
  bool recomputes = false;

  // Memory of the actor's vocabulary passes, on the stage whose number they carry.

  /// Memory from S to T: the scores of the actor's shard, and their input X. Without T: until S
  /// ends.
  double score_memory = 0;
  /// Additional memory from S until all S of the microbatch end. With one barrier: the shard's part
  /// of X's gradient, and its target rows, each of X's size.
  double partial_held = 0;
  /// Memory of a tensor of X's size. IF takes one until all IF of the microbatch end; on stage 0's
  /// actor until stage 0's forward ends. Another is held from stage 0's input gradient to IB.
  double embedded_held = 0;
};

/// Returns the time that a stage's reduction takes after the last weight gradient, without a
/// REDUCE_GRAD: at least that of its last part. A stage with one layer starts after its B.
double late_reduction(const StageCosts& stage);

/// Points within actions at which an edge's tensor is computed and needed, in one direction. Points
/// within a B are given as parts of its I and W, so that they stay valid when a stage's durations
/// change. A tensor is sent as soon as it exists, and its user blocks only where it needs the
/// tensor. Default: computed at the end of an action, needed at the beginning.
struct TensorTiming {
  bool exists = true;  ///< False if no tensor is sent in this direction.
  /// Computed after this part of the producer's F or input gradient ...
  double produced_at = 1;
  double produced_at_weights = 1;  ///< ... and, within a B, after this part of the weight gradient.
  /// Needed from this part of the consumer's F or input gradient on ...
  double needed_at = 0;
  double needed_at_weights = 0;  ///< ... and, within a B, from this part of the weight gradient on.
  /// True if an I without its W does not need the tensor; its W needs it from `needed_at_weights`
  /// on.
  bool for_weights_only = false;
  /// Order in which an action uses and computes tensors at the same point, as steps may take no
  /// time. If equal, uses come first.
  int produced_step = 0, needed_step = 0;
  /// Share of the sender's capacity for transfers in flight; see InterfaceSharing::kFair.
  double send_share = 1;
  /// Part of the transfer time that uses no bandwidth under kFair.
  double latency = 0;
  friend bool operator==(const TensorTiming&, const TensorTiming&) = default;
};

/// Time to transfer one microbatch's tensor along an edge between different actors.
struct EdgeCosts {
  StageEdge edge;       ///< Stage edge; its `bytes` are in the memory unit of the stages.
  double forward = 0;   ///< Time of the activation.
  double backward = 0;  ///< Time of the gradient.
  TensorTiming forward_timing = {};
  TensorTiming backward_timing = {};
};

/// Member of a kind of compound.
struct CompoundMember {
  int stage = 0;
  ActionKind kind = ActionKind::kForward;
  /// Number of its microbatch among those of the compound, in the order of the members.
  int microbatch = 0;
  friend auto operator<=>(const CompoundMember&, const CompoundMember&) = default;
};
/// Members of a kind of compound, in order.
using CompoundMembers = std::vector<CompoundMember>;
CompoundMembers compound_members(std::span<const Action> actions);

/// Costs of a compound whose members run interleaved.
struct CompoundCosts {
  double time = 0;  ///< Without ScheduleCosts::dispatch_time.
  /// Part of its time after which a member's tensor exists, by index of the edge and of the member.
  /// Tensors that are missing here exist at its end.
  std::map<std::pair<int, int>, double> made_at = {};
};

/// Sharing of a network interface between concurrent transfers.
enum class InterfaceSharing : std::uint8_t {
  kFifo,  ///< One transfer per direction at a time, first come first served.
  /// Sharing as in the executor. The sender admits transfers in order of arrival while their
  /// TensorTiming::send_share fit. Transfers in flight share both interfaces fairly, weighted by
  /// `share`. Transfers of one edge may overtake each other.
  kFair,
};

/// Costs of a model on a cluster, for simulation. A value.
struct ScheduleCosts {
  std::vector<StageCosts> stages;
  std::vector<EdgeCosts> edges;
  double dispatch_time = 0;  ///< Dispatch time, added to every action.
  /// Network interface of each actor, numbered from 0. Actors with equal numbers share one. Empty:
  /// transfers of different edges do not slow each other down.
  std::vector<int> nic_of_actor;
  /// Returns the number of interfaces; 0 if `nic_of_actor` is empty.
  int num_nics() const;
  /// Transfer times of vocabulary passes between one actor and all others. `vocabulary_tensor`: a
  /// tensor of X's size (the last stage's output to all S, its gradient back, the output of IF to
  /// stage 0, and its gradient to all IB). `vocabulary_exchange`: maxima and sums after S. These
  /// transfers do not compete with each other or with edges.
  double vocabulary_tensor = 0, vocabulary_exchange = 0;
  /// Time of the final exchange of a step, for which all actors wait: shared gradients and norms.
  double exchange = 0;
  /// Compounds whose members run interleaved. In others, one runs after the other.
  std::map<CompoundMembers, CompoundCosts> compounds = {};
  InterfaceSharing sharing = InterfaceSharing::kFifo;

  std::vector<StageEdge> stage_edges() const;
};

/// Returns the duration of an action that does not wait. I and B include an R that the schedule
/// lacks. A REDUCE_GRAD lasts until its reduction ends.
double duration(const ScheduleCosts& costs, const Action& action);

/// Returns the costs of a compound; null if its members run one after the other.
const CompoundCosts* find_compound(const ScheduleCosts& costs, std::span<const Action> members);

/// Returns the time within an F, I, W or B, without `dispatch_time`, at which these parts of its F
/// or input gradient and of its weight gradient are done: see TensorTiming.
double time_until(const StageCosts& stage, ActionKind kind, double work, double weights);

/// Multiplies the costs of a microbatch: times and memory of actions, edges and passes. Those of a
/// step stay. Compounds are left out.
void scale_microbatch(ScheduleCosts& costs, double factor);

/// Splits every stage into `chunks` consecutive stages with equal parts of its time and memory.
/// Vocabulary passes are not split. An edge between neighbours costs as much as the most expensive
/// one before, as the placement decides which actors it joins. A skip edge leaves the last part of
/// its stage and enters the first part of the other. Throws Error(kInvalidArgument) if chunks < 1.
ScheduleCosts split_stages(const ScheduleCosts& costs, int chunks);

/// Returns the durations by which with_vocabulary() chooses an order: means over all actors, and
/// the longest transfers.
VocabularyTimes vocabulary_times(const ScheduleCosts& costs, std::span<const int> actor_of_stage);

/// Throws Error(kInvalidArgument) unless every stage has costs.
void require_stage_costs(const Schedule& schedule, const ScheduleCosts& costs);

/// Returns costs with equal stages and a chain of edges that take `transfer` in each direction.
ScheduleCosts uniform_costs(int stages, const StageCosts& stage, double transfer = 0);

}  // namespace weft::mesh

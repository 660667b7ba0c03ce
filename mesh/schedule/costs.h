#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mesh/schedule/schedule.h"
#include "mesh/schedule/vocabulary.h"

namespace weft::mesh {

/// What one microbatch costs a stage. Any unit of time, any unit of memory, the same for all.
struct StageCosts {
  double forward = 1;      ///< F
  double input_grad = 1;   ///< I
  double weight_grad = 1;  ///< W; B takes I and W
  double recompute = 0;    ///< R
  /// S, T, IF and IB of the stage's actor, if the stage names them: a vocabulary is split over
  /// actors, not over stages.
  double vocabulary_scores = 0, vocabulary_grads = 0;
  double input_forward = 0, input_backward = 0;
  double reduce_grad = 0;  ///< Once per step, beside the computation.
  double optimizer = 0;    ///< Once per step.
  /// Memory that F takes, until the input gradient is there ...
  double activations = 1;
  /// ... but for this part of it, which W needs and gives back.
  double for_weight_grad = 1;
  /// What F leaves where an R follows, which takes the rest again.
  double kept_for_recompute = 0;
  /// Where the schedule has no R of the stage, its I and B begin with one.
  bool recomputes = false;
  // Memory of vocabulary passes, of the stage's actor if the stage names them.
  /// What S takes and T gives back: the scores of the actor's shard, and the tensor X that they
  /// came from. Of a schedule without T: until S is over.
  double scores_held = 0;
  /// What S takes on top of that until all S of the microbatch are over. With one barrier: the
  /// shard's part of X's gradient, and its target rows, each of X's size.
  double partial_held = 0;
  /// A tensor of X's size. IF takes one and gives it back when all IF of the microbatch are over,
  /// on stage 0's actor when its forward is; one waits from stage 0's input gradient on for IB.
  double embedded_held = 0;
};

/// When within the actions at its ends an edge's tensor is made and needed, in one direction. The
/// parts of a B are told by those of its I and W, so that they stay what they are when the times of
/// a stage change. A tensor leaves as soon as it exists, and holds its user up only where that
/// needs it. By itself: made at the end of an action, needed at the beginning.
struct TensorTiming {
  bool exists = true;         ///< False: nothing goes this way, and nothing waits for it.
  double made = 1;            ///< After this part of the F or input gradient that makes it ...
  double made_weights = 1;    ///< ... and, within a B, this part of the weight gradient.
  double needed = 0;          ///< From this part on of the F or input gradient that uses it ...
  double needed_weights = 0;  ///< ... and, within a B, this part of the weight gradient.
  /// An I that stands alone does without it; its W needs it from `needed_weights` on.
  bool for_weights_only = false;
  /// In which order an action uses and makes tensors at one moment: steps may take no time. Equal:
  /// uses come first.
  int made_step = 0, needed_step = 0;
  /// Of its sender's places for transfers under way, the part that it takes: see
  /// InterfaceSharing::kFair.
  double share = 1;
  /// Seconds of its time in which, under kFair, it takes nothing of the interfaces.
  double latency = 0;
  friend bool operator==(const TensorTiming&, const TensorTiming&) = default;
};

/// Time to move one microbatch's tensor along an edge whose ends lie on different actors.
struct EdgeCosts {
  StageEdge edge;       ///< Its bytes are in the unit of the stages' memory.
  double forward = 0;   ///< The activation.
  double backward = 0;  ///< Its gradient.
  TensorTiming forward_timing = {};
  TensorTiming backward_timing = {};
};

/// How transfers that meet at a network interface get along.
enum class InterfaceSharing : std::uint8_t {
  kInTurn,  ///< One transfer each way at a time, first come first served.
  /// As the executor does it: at their sender as many as fit, in the order in which they come, by
  /// TensorTiming::share; what is under way shares both interfaces fairly, by the same shares, and
  /// transfers of one edge need not wait for each other.
  kFair,
};

/// What a simulation knows of model and machine. A value.
struct ScheduleCosts {
  std::vector<StageCosts> stages;
  std::vector<EdgeCosts> edges;
  double per_action = 0;  ///< Added to every action: what dispatching it costs.
  /// Actors with the same number share a network interface; empty: transfers of different edges do
  /// not slow each other down.
  std::vector<int> nic_of_actor;
  /// They are numbered from 0; 0 where none are named.
  int num_nics() const;
  /// A compound takes this times the sum of its actions, as one; 0: its actions run one after the
  /// other.
  double pair_time = 0;
  /// Between an actor and all others, for vocabulary passes: a tensor of X's size (the last stage's
  /// output to all S, its gradient back, what IF gives to stage 0, and its gradient to all IB), and
  /// the exchange of maxima and sums behind S. They do not slow each other or the edges down.
  double vocabulary_tensor = 0, vocabulary_exchange = 0;
  /// What a step ends with, once, for which all wait for each other: shared gradients and the
  /// exchange of norms.
  double exchange = 0;
  InterfaceSharing sharing = InterfaceSharing::kInTurn;

  std::vector<StageEdge> stage_edges() const;
};

/// What the action takes while it need not wait. An R that the schedule lacks is in I and B. Of a
/// REDUCE_GRAD, until what it begins is over.
double duration(const ScheduleCosts& costs, const Action& action);

/// The same of an F, I, W or B, without `per_action`, until these parts of its F or input gradient,
/// and of its weight gradient, are done: see TensorTiming.
double time_until(const StageCosts& stage, ActionKind kind, double work, double weights);

/// The same work cut finer: every stage becomes `chunks` stages in a row with an equal part of its
/// time and memory, but for vocabulary passes, of which an actor has no more than before. The edges
/// between neighbours cost what the dearest of them did, as it depends on the placement between
/// which actors they lie; a skip edge leaves the last part of its stage and enters the first part
/// of the other. Throws Error(kInvalidArgument) if chunks < 1.
ScheduleCosts cut_in_chunks(const ScheduleCosts& costs, int chunks);

/// Times by which with_vocabulary() chooses an order: the means of all actors, and the longest
/// transfers.
VocabularyTimes vocabulary_times(const ScheduleCosts& costs, std::span<const int> actor_of_stage);

/// Throws Error(kInvalidArgument) unless each stage has costs.
void require_stage_costs(const Schedule& schedule, const ScheduleCosts& costs);

/// All stages alike, a chain of edges that take `transfer` each way.
ScheduleCosts uniform_costs(int stages, const StageCosts& stage, double transfer = 0);

}  // namespace weft::mesh

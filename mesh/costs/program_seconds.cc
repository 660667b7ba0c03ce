#include "mesh/costs/program_seconds.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "core/ops/fusion.h"
#include "mesh/program/lanes.h"
#include "mesh/program/step_order.h"

namespace weft::mesh {
namespace {

double op_seconds(const Program& program, const Run& run, const OpTimeModel& seconds) {
  std::vector<TensorType> inputs;
  for (const std::uint32_t input : run.inputs) inputs.push_back(program.buffers[input].type);
  return seconds(program.ops[run.op], inputs);
}

MeshId mesh_of(const TrainingPlan& plan, const Program& program) {
  const auto has = [&](const DeviceMesh& mesh) { return mesh.rank_of(program.device).has_value(); };
  const auto found = std::ranges::find_if(plan.partition.meshes, has);
  WEFT_CHECK(found != plan.partition.meshes.end(), "device {} is of no mesh",
             program.device.value());
  return MeshId(found - plan.partition.meshes.begin());
}

/// Position of a Run instruction in the model.
struct OpPosition {
  OpKind kind = OpKind::kAdd;
  int stage = 0;
  Pass pass = Pass::kForward;
  bool again = false;  ///< True if it recomputes part of a forward.
};

/// Places of the Runs of one program.
class OpPositions {
 public:
  OpPositions(const TrainingPlan& plan, const Program& program)
      : plan_(plan), mesh_(mesh_of(plan, program)), own_(plan.partition.per_mesh[mesh_]) {
    for (const Instruction& instruction : program.instructions) {
      const auto* begin = std::get_if<BeginAction>(&instruction);
      if (begin != nullptr && begin->kind == ActionKind::kRecompute)
        scheduled_.insert(begin->stage);
    }
  }

  void begin(const BeginAction& action) {
    const Members of = members_of(action);
    const auto [places, is_new] = places_.try_emplace({key_of(of), of.member});
    current_ = &places->second;
    if (is_new) add_places(action, of);
    next_ = &reached_[{action.stage, action.kind, action.microbatch}];
  }

  /// Returns the place of the next Run, an op of `kind`. Call for all Runs of an action in order.
  /// Skips steps whose ops were fused into a later step of the same pass (core/graph).
  const OpPosition& next(OpKind kind) {
    WEFT_CHECK(current_ != nullptr, "a run outside of an action");
    std::size_t& next = *next_;
    while (next < current_->size() && (*current_)[next].kind != unfused_kind(kind)) ++next;
    WEFT_CHECK(next < current_->size(), "an action runs more than the steps of its stage");
    return (*current_)[next++];
  }

 private:
  /// The compound of an action.
  struct Members {
    std::span<const Action> actions;
    std::size_t member = 0;  ///< Index of the action.
  };
  Members members_of(const BeginAction& begin) const {
    const std::vector<Action>& actions =
        plan_.schedule.actors[plan_.schedule.actor_of_stage[begin.stage]];
    for (std::size_t first = 0; first < actions.size();) {
      const std::size_t end = end_of_compound(actions, first);
      for (std::size_t i = first; i < end; ++i)
        if (actions[i].stage == begin.stage && actions[i].kind == begin.kind &&
            actions[i].microbatch == begin.microbatch)
          return {std::span(actions).subspan(first, end - first), i - first};
      first = end;
    }
    WEFT_CHECK(false, "the schedule has no action of a program");
    return {};
  }

  void add_places(const BeginAction& action, const Members& of) {
    if (is_vocabulary_pass(action.kind)) return add_vocabulary_places(action);
    const bool begins_again =
        plan_.layout.stages[action.stage].recompute && gives_input_grad(action.kind);
    const bool again =
        scheduled_.contains(action.stage) ? action.kind == ActionKind::kRecompute : begins_again;
    const StageId stage(action.stage);
    const ActionListMap& lists = plan_.train.lists[mesh_];
    if (!lists.empty()) {
      for (const ActionStep& one : lists.at(key_of(of)).steps)
        if (one.part != ActionStep::Part::kSend && one.member == of.member)
          add(own_, stage, {one.step}, one.round == ActionStep::Round::kRecompute);
      return;
    }
    if (again) add(own_, stage, recompute_steps(own_, stage), true);
    add(own_, stage, steps_of(own_, stage, action.kind), false);
  }

  void add_vocabulary_places(const BeginAction& action) {
    const MeshPartition& part = plan_.partition.per_mesh[*plan_.partition.spanning_mesh()];
    const int barriers = plan_.schedule.vocabulary_barriers;
    const auto stage =
        stage_of(plan_.partition, {action.stage, action.kind, action.microbatch, false});
    if (!stage) return;
    if (action.kind == ActionKind::kVocabularyGrads && barriers == 2)
      add(part, *stage, deferred_score_steps(part, *stage, barriers), false);
    add(part, *stage, steps_of(part, *stage, action.kind, barriers), false);
    // Measured times are per action, so all ops of an action count as one pass.
    const bool grads =
        action.kind == ActionKind::kVocabularyGrads || action.kind == ActionKind::kInputBackward;
    for (OpPosition& place : *current_) place.pass = grads ? Pass::kWeightGrad : Pass::kForward;
  }

  void add(const MeshPartition& part, StageId stage, const std::vector<std::size_t>& steps,
           bool again) {
    for (const std::size_t step : steps) {
      const auto* compute = std::get_if<ComputeStep>(&part.steps[step].what);
      if (compute == nullptr) continue;
      current_->push_back({plan_.partition.graph.node(compute->node).op.kind, stage.value(),
                           part.steps[step].pass, again});
    }
  }

  ActionListKey key_of(const Members& of) const {
    const Action& first = of.actions.front();
    if (is_vocabulary_pass(first.kind)) return {{StageId(first.stage), first.kind}};
    return list_key(plan_.partition, of.actions, plan_.schedule.microbatches);
  }

  const TrainingPlan& plan_;
  const MeshId mesh_;
  const MeshPartition& own_;  ///< Part of the mesh of the program's stages.
  std::set<int> scheduled_;   ///< Stages whose R is in the schedule.
  /// Places of ops, by compound and member.
  std::map<std::pair<ActionListKey, std::size_t>, std::vector<OpPosition>> places_;
  std::vector<OpPosition>* current_ = nullptr;
  /// Index of the next place, by stage, action kind and microbatch.
  std::map<std::tuple<int, ActionKind, int>, std::size_t> reached_;
  std::size_t* next_ = nullptr;
};

/// Calls `visit` with the instruction index and place of every Run.
template <typename Visit>
void for_each_run(const TrainingPlan& plan, const Program& program, const Visit& visit) {
  OpPositions places(plan, program);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    if (const auto* begin = std::get_if<BeginAction>(&program.instructions[i]))
      places.begin(*begin);
    if (const auto* run = std::get_if<Run>(&program.instructions[i]))
      visit(i, places.next(program.ops[run->op].kind));
  }
}

/// Seconds of all microbatches of a stage on one device.
struct StageSum {
  double forward = 0, input_grad = 0, weight_grad = 0, again = 0;

  double& of(const OpPosition& place) {
    if (place.again) return again;
    if (place.pass == Pass::kForward) return forward;
    return place.pass == Pass::kInputGrad ? input_grad : weight_grad;
  }
};

double ratio(double measured, double modelled) {
  return modelled > 0 ? std::max(measured, 0.0) / modelled : 0;
}

}  // namespace

InstructionSeconds program_seconds(const TrainingPlan& plan, const OpTimeModel& seconds) {
  InstructionSeconds result;
  for (const Program& program : plan.train.programs) {
    result.emplace_back(program.instructions.size(), 0);
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      if (const auto* run = std::get_if<Run>(&program.instructions[i]))
        result.back()[i] = op_seconds(program, *run, seconds);
    }
  }
  return result;
}

InstructionSeconds program_seconds(const TrainingPlan& plan, const OpTimeModel& seconds,
                                   std::span<const MeasuredStageTimes> measured) {
  require_measured(plan, measured);
  const double microbatches = plan.schedule.microbatches;
  InstructionSeconds result = program_seconds(plan, seconds);
  for (std::size_t p = 0; p < result.size(); ++p) {
    const Program& program = plan.train.programs[p];
    std::map<int, StageSum> sums, factors;
    for_each_run(plan, program, [&](std::size_t i, const OpPosition& place) {
      sums[place.stage].of(place) += result[p][i];
    });
    for (const auto& [stage, sum] : sums) {
      const MeasuredStageTimes& one = measured[stage];
      StageSum& factor = factors[stage];
      factor.forward = factor.again = ratio(microbatches * one.forward, sum.forward);
      // The measured I includes the R that precedes it.
      const bool recomputes =
          stage < plan.partition.num_schedule_stages() && plan.layout.stages[stage].recompute;
      const double again = recomputes ? factor.again * sum.again : 0;
      factor.input_grad = ratio(microbatches * one.input_grad - again, sum.input_grad);
      factor.weight_grad = ratio(microbatches * one.weight_grad, sum.weight_grad);
    }
    for_each_run(plan, program, [&](std::size_t i, const OpPosition& place) {
      result[p][i] *= factors[place.stage].of(place);
    });
  }
  return result;
}

ProgramSimulation simulate_step(const TrainingPlan& plan, const InstructionSeconds& seconds) {
  return simulate_programs(plan.train.programs, seconds,
                           traffic_of(plan.train.programs, plan.topology, plan.network));
}

double busiest_link_seconds(const TrainingPlan& plan) {
  return busiest_link_seconds(plan.train.programs, plan.topology, plan.network);
}

}  // namespace weft::mesh

#include "mesh/search/internal/search_evaluator.h"

#include <algorithm>

namespace weft::mesh {

bool SearchEvaluator::supports(const SearchRequest& request) {
  const bool fair =
      !request.costs.nic_of_actor.empty() && request.costs.sharing == InterfaceSharing::kFair;
  return !fair && request.vocabulary == VocabularyMode::kLast && !request.simulation.blocking &&
         std::ranges::none_of(request.costs.edges, [](const EdgeCosts& edge) {
           return edge.backward_timing.for_weights_only;
         });
}

SearchEvaluator::SearchEvaluator(const SearchRequest& request)
    : request_(request),
      microbatches_(request.microbatches),
      events_(request),
      transfers_(request, events_.lanes()) {
  const std::size_t stages = request.actor_of_stage.size();
  const std::size_t actors = num_actors(request.actor_of_stage);
  reduce_.assign(actors, 0);
  work_of_stages_.assign(actors, 0);
  std::vector<double> optimizer(actors, 0);
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t actor = request.actor_of_stage[s];
    const StageCosts& costs = request.costs.stages[s];
    reduce_[actor] += late_reduction(costs);
    optimizer[actor] += costs.optimizer;
    work_of_stages_[actor] +=
        request.microbatches * (costs.forward + costs.input_grad + costs.weight_grad +
                                (costs.recomputes ? costs.recompute : 0));
  }
  optimizer_ = *std::ranges::max_element(optimizer);
  stages_.resize(stages);
  cursors_.resize(actors);
  first_.resize(actors + 1);
  memory_.resize(actors);
}

void SearchEvaluator::reset(const Schedule& schedule) {
  const std::size_t actors = cursors_.size();
  std::ranges::fill(stages_, StageProgress{});
  std::ranges::fill(cursors_, Cursor{});
  transfers_.reset();
  queue_.clear();
  for (std::size_t actor = 0; actor < actors; ++actor) {
    first_[actor + 1] = first_[actor] + schedule.actors[actor].size();
    queue_.push_back(actors - 1 - actor);
    cursors_[actor].queued = true;
  }
  played_.resize(first_[actors]);
}

/// Returns whether every stage has completed all microbatches.
bool SearchEvaluator::is_complete() const {
  return std::ranges::all_of(stages_, [&](const StageProgress& stage) {
    return stage.forwards == microbatches_ && stage.inputs == microbatches_ &&
           stage.weights == microbatches_;
  });
}

/// Computes the times of a step whose actions have all run.
void SearchEvaluator::score(PlayOutcome& outcome) const {
  for (std::size_t actor = 0; actor < cursors_.size(); ++actor) {
    const double end = cursors_[actor].time;
    outcome.makespan = std::max(outcome.makespan, end);
    outcome.step = std::max(outcome.step, end + reduce_[actor]);
  }
  outcome.step = outcome.step + request_.costs.exchange + optimizer_;
  for (const Played& one : played_) outcome.mean_action_end += one.end;
  outcome.mean_action_end /= played_.size();
}

SearchEvaluator::PlayOutcome SearchEvaluator::play(const Schedule& schedule, double longest_step,
                                                   bool with_peak) {
  PlayOutcome outcome;
  reset(schedule);
  std::size_t done = 0;
  while (!queue_.empty() || transfers_.has_turns()) {
    if (queue_.empty()) {
      wake_receiver(transfers_.move_in_turn());
      continue;
    }
    const std::size_t actor = queue_.back();
    queue_.pop_back();
    cursors_[actor].queued = false;
    switch (run(schedule, actor, longest_step)) {
      case RunOutcome::kDone: ++done; break;
      case RunOutcome::kBlocked: break;
      case RunOutcome::kImpossible: return outcome;
      case RunOutcome::kTooSlow: outcome.too_slow = true; return outcome;
    }
  }
  if (done < cursors_.size() || !is_complete()) return outcome;
  outcome.finishes = true;
  score(outcome);
  outcome.too_slow = outcome.step > longest_step;
  outcome.fits = true;
  if (outcome.too_slow || (request_.memory_of_actor.empty() && !with_peak)) return outcome;
  if (events_.holds_tensors()) sweep_tensors(schedule, outcome);
  else sweep_activations(schedule, outcome);
  return outcome;
}

/// Returns whether the actor's own stages permit the action now.
bool SearchEvaluator::begin(const Action& action,
                            const ActionEvents::ActionProgram& program) const {
  const std::size_t microbatch = action.microbatch;
  const StageProgress& own = stages_[action.stage];
  switch (action.kind) {
    case ActionKind::kForward:
      return own.forwards == microbatch &&
             std::ranges::all_of(program.stages_before,
                                 [&](int before) { return stages_[before].forwards > microbatch; });
    case ActionKind::kBackward:
    case ActionKind::kInputGrad:
      return own.inputs == microbatch && own.forwards > microbatch &&
             (action.kind == ActionKind::kInputGrad || own.weights == microbatch) &&
             std::ranges::all_of(program.stages_before,
                                 [&](int before) { return stages_[before].inputs > microbatch; });
    case ActionKind::kWeightGrad: return own.weights == microbatch && own.inputs > microbatch;
    default: return false;
  }
}

void SearchEvaluator::end(const Action& action, const ActionEvents::ActionProgram& program,
                          double time) {
  StageProgress& own = stages_[action.stage];
  own.forwards += action.kind == ActionKind::kForward ? 1U : 0U;
  own.inputs += gives_input_grad(action.kind) ? 1U : 0U;
  own.weights += gives_weight_grad(action.kind) ? 1U : 0U;
  for (std::size_t e = program.first; e < program.past; ++e) {
    const ActionEvents::ActionEvent& event = events_.event(e);
    if (!event.makes) transfers_.use(event.lane, action.microbatch, time);
  }
}

void SearchEvaluator::wake_receiver(int lane) {
  const std::size_t receiver = events_.lanes()[lane].to_actor;
  Cursor& cursor = cursors_[receiver];
  if (cursor.blocked_on != lane || cursor.queued) return;
  cursor.blocked_on = -1;
  cursor.queued = true;
  queue_.push_back(receiver);
}

SearchEvaluator::RunOutcome SearchEvaluator::run(const Schedule& schedule, std::size_t actor,
                                                 double longest) {
  Cursor& cursor = cursors_[actor];
  const std::vector<Action>& actions = schedule.actors[actor];
  const double work = work_of_stages_[actor] + request_.costs.dispatch_time * actions.size() +
                      reduce_[actor] + request_.costs.exchange + optimizer_;
  double time = cursor.time;
  for (; cursor.index < actions.size(); ++cursor.index) {
    const Action& action = actions[cursor.index];
    const ActionEvents::ActionProgram& program = events_.program(action);
    const std::size_t microbatch = action.microbatch;
    if (!cursor.begun) {
      if (!begin(action, program)) return RunOutcome::kImpossible;
      cursor.begun = true;
      cursor.event = program.first;
      cursor.now = {};
    }
    for (; cursor.event < program.past; ++cursor.event) {
      const ActionEvents::ActionEvent& event = events_.event(cursor.event);
      if (cursor.event == program.start) cursor.now.start = time;
      if (!event.makes) {
        if (!transfers_.is_known(event.lane, microbatch)) {
          cursor.blocked_on = event.lane;
          cursor.time = time;
          return RunOutcome::kBlocked;
        }
        time += event.before;
        const double arrives = transfers_.arrival(event.lane, microbatch);
        if (arrives > time) {
          cursor.idle += arrives - time;
          cursor.now.lane = event.lane;
          time = arrives;
          if (cursor.idle + work > longest) return RunOutcome::kTooSlow;
        }
        continue;
      }
      time += event.before;
      transfers_.make(event.lane, microbatch, time);
      if (!transfers_.takes_turns()) wake_receiver(event.lane);
    }
    if (program.start == program.past) cursor.now.start = time;
    time += program.rest;
    cursor.now.end = time;
    end(action, program, time);
    played_[first_[actor] + cursor.index] = cursor.now;
    cursor.begun = false;
  }
  cursor.time = time;
  return RunOutcome::kDone;
}

std::vector<std::pair<int, int>> SearchEvaluator::blocked_by_order(const Schedule& schedule) const {
  std::vector<int> place(events_.num_programs() * microbatches_, -1);
  std::size_t actor = 0;
  for (std::size_t a = 0; a < cursors_.size(); ++a) {
    for (std::size_t i = 0; i < schedule.actors[a].size(); ++i) {
      const Action& action = schedule.actors[a][i];
      place[ActionEvents::index_of(action) * microbatches_ + action.microbatch] = i;
    }
    if (cursors_[a].time > cursors_[actor].time) actor = a;
  }
  /// Returns the index of the action of this kind, or of the B that includes it.
  const auto place_of = [&](int stage, bool backward, std::size_t microbatch) {
    const auto at = [&](ActionKind kind) {
      return place[ActionEvents::index_of({stage, kind, 0}) * microbatches_ + microbatch];
    };
    if (!backward) return at(ActionKind::kForward);
    return std::max(at(ActionKind::kInputGrad), at(ActionKind::kBackward));
  };
  using HeldUp = LaneTransfers::HeldUp;
  const auto held_up = [&](std::size_t tensor) { return transfers_.at(tensor).held_up; };
  std::vector<std::pair<int, int>> found;
  int index = std::ssize(schedule.actors[actor]) - 1;
  while (index >= 0) {
    const Played& one = played_[first_[actor] + index];
    if (one.lane < 0) {
      if (index > 0) found.emplace_back(actor, index);
      --index;
      continue;
    }
    auto at = one.lane * microbatches_ + schedule.actors[actor][index].microbatch;
    while (held_up(at) == HeldUp::kByLane || held_up(at) == HeldUp::kByInterface)
      at = held_up(at) == HeldUp::kByLane ? at - 1
                                          : static_cast<std::size_t>(transfers_.at(at).after);
    const EdgeLane& lane = events_.lanes()[at / microbatches_];
    const bool backward = ActionEvents::is_backward(at / microbatches_);
    const std::size_t microbatch = at % microbatches_;
    if (held_up(at) == HeldUp::kByCredit) {
      actor = lane.to_actor;
      index = place_of(lane.to_stage, backward, microbatch - request_.simulation.credits);
    } else {
      actor = lane.from_actor;
      index = place_of(lane.from_stage, backward, microbatch);
    }
  }
  std::ranges::reverse(found);
  return found;
}

}  // namespace weft::mesh

#include "mesh/search/internal/search_evaluator.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace weft::mesh {

bool SearchEvaluator::supports(const SearchRequest& request) {
  const bool fair =
      !request.costs.nic_of_actor.empty() && request.costs.sharing == InterfaceSharing::kFair;
  return !fair && request.vocabulary == VocabularyMode::kLast &&
         request.costs.compound_time_factor == 0 && !request.simulation.blocking &&
         std::ranges::none_of(request.costs.edges, [](const EdgeCosts& edge) {
           return edge.backward_timing.for_weights_only;
         });
}

SearchEvaluator::SearchEvaluator(const SearchRequest& request)
    : request_(request), microbatches_(request.microbatches) {
  const std::size_t stages = request.actor_of_stage.size();
  const std::size_t actors = num_actors(request.actor_of_stage);
  add_lanes();
  add_programs();
  reduce_.assign(actors, 0);
  work_of_stages_.assign(actors, 0);
  std::vector<double> optimizer(actors, 0);
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t actor = request.actor_of_stage[s];
    const StageCosts& costs = request.costs.stages[s];
    reduce_[actor] += costs.reduce_grad;
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
  tensors_.resize(lanes_.size() * microbatches_);
  takes_turns_ = !request.costs.nic_of_actor.empty();
  if (!takes_turns_) return;
  for (Lane& lane : lanes_) {
    lane.out = request.costs.nic_of_actor[lane.from_actor];
    lane.in = request.costs.nic_of_actor[lane.to_actor];
  }
  out_.resize(request.costs.num_nics());
  in_.resize(out_.size());
}

void SearchEvaluator::add_lanes() {
  for (const EdgeCosts& edge : request_.costs.edges) {
    holds_tensors_ = holds_tensors_ || edge.edge.bytes > 0;
    for (const bool backward : {false, true}) {
      Lane lane;
      lane.from_stage = backward ? edge.edge.to : edge.edge.from;
      lane.to_stage = backward ? edge.edge.from : edge.edge.to;
      lane.from_actor = request_.actor_of_stage[lane.from_stage];
      lane.to_actor = request_.actor_of_stage[lane.to_stage];
      lane.exists = lane.from_actor != lane.to_actor &&
                    (backward ? edge.backward_timing : edge.forward_timing).exists;
      lane.seconds = backward ? edge.backward : edge.forward;
      lane.bytes = edge.edge.bytes;
      lanes_.push_back(lane);
    }
  }
}

void SearchEvaluator::add_programs() {
  for (int stage = 0; stage < std::ssize(request_.actor_of_stage); ++stage) {
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward,
                                  ActionKind::kInputGrad, ActionKind::kWeightGrad}) {
      add_program(stage, kind);
    }
  }
}

/// Returns the stages of the same actor whose tensors the action uses.
std::vector<int> SearchEvaluator::stages_before(int stage, ActionKind kind) const {
  std::vector<int> stages;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    if (carries(l, kind) && lane.from_actor == lane.to_actor && lane.to_stage == stage)
      stages.push_back(lane.from_stage);
  }
  return stages;
}

/// Returns the sorted tensor events of an action. StepGraph cuts the same action into pieces.
std::vector<SearchEvaluator::TensorEvent> SearchEvaluator::tensor_events(int stage,
                                                                         ActionKind kind) const {
  const StageCosts& costs = request_.costs.stages[stage];
  const double whole = time_until(costs, kind, 1, 1);
  std::vector<TensorEvent> events;
  bool cut = false;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    if (!carries(l, kind) || !lane.exists) continue;
    const EdgeCosts& edge = request_.costs.edges[l / 2];
    const TensorTiming& when = is_backward(l) ? edge.backward_timing : edge.forward_timing;
    if (lane.from_stage == stage) {
      const double made = time_until(costs, kind, when.produced_at, when.produced_at_weights);
      events.push_back({made, when.produced_step, true, static_cast<int>(l)});
      cut = cut || made < whole;
    } else if (lane.to_stage == stage) {
      const double needed = time_until(costs, kind, when.needed_at, when.needed_at_weights);
      events.push_back({needed, when.needed_step, false, static_cast<int>(l)});
      cut = cut || needed > 0;
    }
  }
  std::ranges::sort(events, {}, [&](const TensorEvent& event) {
    return cut ? std::tuple(event.position, event.step, event.makes, event.lane)
               : std::tuple(0.0, 0, event.makes, event.lane);
  });
  return events;
}

void SearchEvaluator::add_program(int stage, ActionKind kind) {
  Program program;
  program.stages_before = stages_before(stage, kind);
  program.first = program.start = events_.size();
  double done = 0, lost = request_.costs.dispatch_time;
  for (const TensorEvent& at : tensor_events(stage, kind)) {
    Event event{at.position - done, at.lane, at.makes};
    if (event.before > 0 || event.makes) {
      event.before += lost;
      lost = 0;
    } else if (program.start == events_.size()) {
      ++program.start;
    }
    done = at.position;
    events_.push_back(event);
  }
  program.past = events_.size();
  program.rest = time_until(request_.costs.stages[stage], kind, 1, 1) - done + lost;
  programs_.push_back(std::move(program));
}

void SearchEvaluator::reset(const Schedule& schedule) {
  const std::size_t actors = cursors_.size();
  std::ranges::fill(stages_, Stage{});
  std::ranges::fill(cursors_, Cursor{});
  for (Lane& lane : lanes_) {
    lane.made = lane.moved = lane.used = 0;
    lane.queued = false;
    lane.free_at = 0;
  }
  queue_.clear();
  turns_.clear();
  std::ranges::fill(out_, Interface{});
  std::ranges::fill(in_, Interface{});
  for (std::size_t actor = 0; actor < actors; ++actor) {
    first_[actor + 1] = first_[actor] + schedule.actors[actor].size();
    queue_.push_back(actors - 1 - actor);
    cursors_[actor].queued = true;
  }
  played_.resize(first_[actors]);
}

/// Returns whether every stage has completed all microbatches.
bool SearchEvaluator::is_complete() const {
  return std::ranges::all_of(stages_, [&](const Stage& stage) {
    return stage.forwards == microbatches_ && stage.inputs == microbatches_ &&
           stage.weights == microbatches_;
  });
}

/// Computes the times of a step whose actions have all run.
void SearchEvaluator::score(Outcome& outcome) const {
  for (std::size_t actor = 0; actor < cursors_.size(); ++actor) {
    const double end = cursors_[actor].time;
    outcome.makespan = std::max(outcome.makespan, end);
    outcome.step = std::max(outcome.step, end + reduce_[actor]);
  }
  outcome.step = outcome.step + request_.costs.exchange + optimizer_;
  for (const Played& one : played_) outcome.mean_action_end += one.end;
  outcome.mean_action_end /= played_.size();
}

SearchEvaluator::Outcome SearchEvaluator::play(const Schedule& schedule, double longest_step,
                                               bool with_peak) {
  Outcome outcome;
  reset(schedule);
  std::size_t done = 0;
  while (!queue_.empty() || !turns_.empty()) {
    if (queue_.empty()) {
      move_in_turn();
      continue;
    }
    const std::size_t actor = queue_.back();
    queue_.pop_back();
    cursors_[actor].queued = false;
    switch (run(schedule, actor, longest_step)) {
      case Progress::kDone: ++done; break;
      case Progress::kBlocked: break;
      case Progress::kImpossible: return outcome;
      case Progress::kTooSlow: outcome.too_slow = true; return outcome;
    }
  }
  if (done < cursors_.size() || !is_complete()) return outcome;
  outcome.finishes = true;
  score(outcome);
  outcome.too_slow = outcome.step > longest_step;
  outcome.fits = true;
  if (outcome.too_slow || (request_.memory_of_actor.empty() && !with_peak)) return outcome;
  if (holds_tensors_) sweep_tensors(schedule, outcome);
  else sweep_activations(schedule, outcome);
  return outcome;
}

/// Returns whether the actor's own stages permit the action now.
bool SearchEvaluator::begin(const Action& action, const Program& program) const {
  const std::size_t microbatch = action.microbatch;
  const Stage& own = stages_[action.stage];
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

void SearchEvaluator::end(const Action& action, const Program& program, double time) {
  Stage& own = stages_[action.stage];
  own.forwards += action.kind == ActionKind::kForward ? 1U : 0U;
  own.inputs += gives_input_grad(action.kind) ? 1U : 0U;
  own.weights += gives_weight_grad(action.kind) ? 1U : 0U;
  for (std::size_t e = program.first; e < program.past; ++e) {
    if (events_[e].makes) continue;
    tensor(events_[e].lane, action.microbatch).used = time;
    ++lanes_[events_[e].lane].used;
    if (takes_turns_) queue_transfer(events_[e].lane);
  }
}

void SearchEvaluator::wake_receiver(int l) {
  const std::size_t receiver = lanes_[l].to_actor;
  Cursor& cursor = cursors_[receiver];
  if (cursor.blocked_on != l || cursor.queued) return;
  cursor.blocked_on = -1;
  cursor.queued = true;
  queue_.push_back(receiver);
}

/// Returns the time at which a completed tensor can move, interfaces aside.
double SearchEvaluator::ready_to_move(int l, std::size_t microbatch) {
  Tensor& moved = tensor(l, microbatch);
  const double lane_free = lanes_[l].free_at;
  moved.start = moved.made;
  moved.held_up = HeldUp::kByMaking;
  if (lane_free > moved.start) {
    moved.start = lane_free;
    moved.held_up = HeldUp::kByLane;
  }
  const std::size_t credits = request_.simulation.credits;
  if (credits > 0 && microbatch >= credits && tensor(l, microbatch - credits).used > moved.start) {
    moved.start = tensor(l, microbatch - credits).used;
    moved.held_up = HeldUp::kByCredit;
  }
  return moved.start;
}

/// Computes a transfer without interfaces.
void SearchEvaluator::move(int l, std::size_t microbatch) {
  Lane& lane = lanes_[l];
  tensor(l, microbatch).end = lane.free_at = ready_to_move(l, microbatch) + lane.seconds;
}

/// Queues the lane's next tensor if all its dependencies are known.
void SearchEvaluator::queue_transfer(int l) {
  Lane& lane = lanes_[l];
  const std::size_t credits = request_.simulation.credits;
  if (lane.queued || lane.moved == lane.made || (credits > 0 && lane.moved >= lane.used + credits))
    return;
  lane.queued = true;
  turns_.push_back({ready_to_move(l, lane.moved), l});
  std::ranges::push_heap(turns_, std::greater<>());
}

/// Computes the next transfer in order of time.
void SearchEvaluator::move_in_turn() {
  std::ranges::pop_heap(turns_, std::greater<>());
  const int l = turns_.back().lane;
  turns_.pop_back();
  Lane& lane = lanes_[l];
  Tensor& moved = tensor(l, lane.moved);
  // Transfers between actors of one interface do not use it.
  if (lane.out != lane.in) {
    for (Interface* side : {&out_[lane.out], &in_[lane.in]}) {
      if (side->free_at <= moved.start) continue;
      moved.start = side->free_at;
      moved.held_up = HeldUp::kByInterface;
      moved.after = side->last;
    }
    const int place = l * static_cast<int>(microbatches_) + static_cast<int>(lane.moved);
    for (Interface* side : {&out_[lane.out], &in_[lane.in]})
      *side = {moved.start + lane.seconds, place};
  }
  moved.end = lane.free_at = moved.start + lane.seconds;
  ++lane.moved;
  lane.queued = false;
  queue_transfer(l);
  wake_receiver(l);
}

SearchEvaluator::Progress SearchEvaluator::run(const Schedule& schedule, std::size_t actor,
                                               double longest) {
  Cursor& cursor = cursors_[actor];
  const std::vector<Action>& actions = schedule.actors[actor];
  const double work = work_of_stages_[actor] + request_.costs.dispatch_time * actions.size() +
                      reduce_[actor] + request_.costs.exchange + optimizer_;
  double time = cursor.time;
  for (; cursor.index < actions.size(); ++cursor.index) {
    const Action& action = actions[cursor.index];
    const Program& program = programs_[program_of(action)];
    const std::size_t microbatch = action.microbatch;
    if (!cursor.begun) {
      if (!begin(action, program)) return Progress::kImpossible;
      cursor.begun = true;
      cursor.event = program.first;
      cursor.now = {};
    }
    for (; cursor.event < program.past; ++cursor.event) {
      const Event& event = events_[cursor.event];
      if (cursor.event == program.start) cursor.now.start = time;
      Lane& lane = lanes_[event.lane];
      if (!event.makes) {
        if ((takes_turns_ ? lane.moved : lane.made) <= microbatch) {
          cursor.blocked_on = event.lane;
          cursor.time = time;
          return Progress::kBlocked;
        }
        time += event.before;
        if (!takes_turns_) move(event.lane, microbatch);
        const double arrives = tensor(event.lane, microbatch).end;
        if (arrives > time) {
          cursor.idle += arrives - time;
          cursor.now.lane = event.lane;
          time = arrives;
          if (cursor.idle + work > longest) return Progress::kTooSlow;
        }
        continue;
      }
      time += event.before;
      tensor(event.lane, microbatch).made = time;
      ++lane.made;
      if (takes_turns_) queue_transfer(event.lane);
      else wake_receiver(event.lane);
    }
    if (program.start == program.past) cursor.now.start = time;
    time += program.rest;
    cursor.now.end = time;
    end(action, program, time);
    played_[first_[actor] + cursor.index] = cursor.now;
    cursor.begun = false;
  }
  cursor.time = time;
  return Progress::kDone;
}

std::vector<std::pair<int, int>> SearchEvaluator::blocked_by_order(const Schedule& schedule) const {
  std::vector<int> place(programs_.size() * microbatches_, -1);
  std::size_t actor = 0;
  for (std::size_t a = 0; a < cursors_.size(); ++a) {
    for (std::size_t i = 0; i < schedule.actors[a].size(); ++i) {
      const Action& action = schedule.actors[a][i];
      place[program_of(action) * microbatches_ + action.microbatch] = i;
    }
    if (cursors_[a].time > cursors_[actor].time) actor = a;
  }
  /// Returns the index of the action of this kind, or of the B that includes it.
  const auto place_of = [&](int stage, bool backward, std::size_t microbatch) {
    const auto at = [&](ActionKind kind) {
      return place[program_of({stage, kind, 0}) * microbatches_ + microbatch];
    };
    if (!backward) return at(ActionKind::kForward);
    return std::max(at(ActionKind::kInputGrad), at(ActionKind::kBackward));
  };
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
    for (;
         tensors_[at].held_up == HeldUp::kByLane || tensors_[at].held_up == HeldUp::kByInterface;) {
      at = tensors_[at].held_up == HeldUp::kByLane ? at - 1
                                                   : static_cast<std::size_t>(tensors_[at].after);
    }
    const Lane& lane = lanes_[at / microbatches_];
    const bool backward = at / microbatches_ % 2 == 1;
    const std::size_t microbatch = at % microbatches_;
    if (tensors_[at].held_up == HeldUp::kByCredit) {
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

#include "mesh/schedule_search/internal/quick_simulation.h"

#include <algorithm>
#include <tuple>

namespace weft::mesh {

bool QuickSimulation::knows(const SearchRequest& request) {
  return request.costs.nic_of_actor.empty() && request.costs.pair_time == 0 && !request.simulation.blocking &&
         std::ranges::none_of(request.costs.edges, [](const EdgeCosts& edge) { return edge.backward_timing.for_weights_only; });
}

QuickSimulation::QuickSimulation(const SearchRequest& request)
    : request_(request), microbatches_(static_cast<std::size_t>(request.microbatches)) {
  const std::size_t stages = request.actor_of_stage.size();
  const auto actors = static_cast<std::size_t>(*std::ranges::max_element(request.actor_of_stage)) + 1;
  add_lanes();
  add_programs();
  reduce_.assign(actors, 0);
  work_of_stages_.assign(actors, 0);
  std::vector<double> optimizer(actors, 0);
  for (std::size_t s = 0; s < stages; ++s) {
    const auto actor = static_cast<std::size_t>(request.actor_of_stage[s]);
    const StageCosts& costs = request.costs.stages[s];
    reduce_[actor] += costs.reduce_grad;
    optimizer[actor] += costs.optimizer;
    work_of_stages_[actor] +=
        request.microbatches * (costs.forward + costs.input_grad + costs.weight_grad + (costs.recomputes ? costs.recompute : 0));
  }
  optimizer_ = *std::ranges::max_element(optimizer);
  stages_.resize(stages);
  cursors_.resize(actors);
  first_.resize(actors + 1);
  changes_.resize(actors);
  tensors_.resize(lanes_.size() * microbatches_);
}

void QuickSimulation::add_lanes() {
  for (const EdgeCosts& edge : request_.costs.edges) {
    holds_tensors_ = holds_tensors_ || edge.edge.bytes > 0;
    for (const bool backward : {false, true}) {
      Lane lane;
      lane.from_stage = backward ? edge.edge.to : edge.edge.from;
      lane.to_stage = backward ? edge.edge.from : edge.edge.to;
      lane.from_actor = request_.actor_of_stage[static_cast<std::size_t>(lane.from_stage)];
      lane.to_actor = request_.actor_of_stage[static_cast<std::size_t>(lane.to_stage)];
      lane.exists = lane.from_actor != lane.to_actor && (backward ? edge.backward_timing : edge.forward_timing).exists;
      lane.seconds = backward ? edge.backward : edge.forward;
      lane.bytes = static_cast<double>(edge.edge.bytes);
      lanes_.push_back(lane);
    }
  }
}

void QuickSimulation::add_programs() {
  for (int stage = 0; stage < static_cast<int>(request_.actor_of_stage.size()); ++stage) {
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward, ActionKind::kInputGrad, ActionKind::kWeightGrad}) {
      add_program(stage, kind);
    }
  }
}

/// See StepGraph, which cuts the same action into pieces.
void QuickSimulation::add_program(int stage, ActionKind kind) {
  const StageCosts& costs = request_.costs.stages[static_cast<std::size_t>(stage)];
  const double again = costs.recomputes ? costs.recompute : 0;
  const auto position = [&](double work, double weights) {
    switch (kind) {
      case ActionKind::kForward: return work * costs.forward;
      case ActionKind::kInputGrad: return again + work * costs.input_grad;
      case ActionKind::kBackward: return again + work * costs.input_grad + weights * costs.weight_grad;
      default: return weights * costs.weight_grad;
    }
  };
  struct At {
    double position = 0;
    int step = 0;
    bool makes = false;
    int lane = 0;
  };
  std::vector<At> events;
  Program program;
  bool cut = false;
  const double whole = position(1, 1);
  for (std::size_t l = 0; l < lanes_.size() && kind != ActionKind::kWeightGrad; ++l) {
    const Lane& lane = lanes_[l];
    const bool backward = l % 2 == 1;
    if (backward != (kind != ActionKind::kForward)) continue;
    if (lane.from_actor == lane.to_actor && lane.to_stage == stage) program.stages_before.push_back(lane.from_stage);
    if (!lane.exists) continue;
    const EdgeCosts& edge = request_.costs.edges[l / 2];
    const TensorTiming& when = backward ? edge.backward_timing : edge.forward_timing;
    if (lane.from_stage == stage) {
      const double made = position(when.made, when.made_weights);
      events.push_back({made, when.made_step, true, static_cast<int>(l)});
      cut = cut || made < whole;
    } else if (lane.to_stage == stage) {
      const double needed = position(when.needed, when.needed_weights);
      events.push_back({needed, when.needed_step, false, static_cast<int>(l)});
      cut = cut || needed > 0;
    }
  }
  std::ranges::sort(events, {}, [&](const At& at) {
    return cut ? std::tuple(at.position, at.step, at.makes, at.lane) : std::tuple(0.0, 0, at.makes, at.lane);
  });
  program.first = program.start = events_.size();
  double done = 0, lost = request_.costs.per_action;
  for (const At& at : events) {
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
  program.rest = whole - done + lost;
  programs_.push_back(std::move(program));
}

QuickSimulation::Outcome QuickSimulation::play(const Schedule& schedule, double longest_step, bool with_peak) {
  Outcome outcome;
  const std::size_t actors = cursors_.size();
  std::ranges::fill(stages_, Stage{});
  std::ranges::fill(cursors_, Cursor{});
  for (Lane& lane : lanes_) {
    lane.made = 0;
    lane.free_at = 0;
  }
  queue_.clear();
  for (std::size_t actor = 0; actor < actors; ++actor) {
    first_[actor + 1] = first_[actor] + schedule.actors[actor].size();
    queue_.push_back(actors - 1 - actor);
    cursors_[actor].queued = true;
  }
  played_.resize(first_[actors]);
  std::size_t done = 0;
  while (!queue_.empty()) {
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
  const auto complete = [&](const Stage& stage) {
    return stage.forwards == microbatches_ && stage.inputs == microbatches_ && stage.weights == microbatches_;
  };
  if (done < actors || !std::ranges::all_of(stages_, complete)) return outcome;
  outcome.finishes = true;
  for (std::size_t actor = 0; actor < actors; ++actor) {
    const double end = cursors_[actor].time;
    outcome.makespan = std::max(outcome.makespan, end);
    outcome.step = std::max(outcome.step, end + reduce_[actor]);
  }
  outcome.step = outcome.step + request_.costs.exchange + optimizer_;
  for (const Played& one : played_) outcome.mean_end += one.end;
  outcome.mean_end /= static_cast<double>(played_.size());
  outcome.too_slow = outcome.step > longest_step;
  outcome.fits = true;
  if (outcome.too_slow || (request_.memory_of_actor.empty() && !with_peak)) return outcome;
  if (holds_tensors_) sweep_tensors(schedule, outcome);
  else sweep_activations(schedule, outcome);
  return outcome;
}

/// Whether the orders of the actor's own stages allow it.
bool QuickSimulation::begin(const Action& action, const Program& program) const {
  const auto microbatch = static_cast<std::size_t>(action.microbatch);
  const Stage& own = stages_[static_cast<std::size_t>(action.stage)];
  switch (action.kind) {
    case ActionKind::kForward:
      return own.forwards == microbatch && std::ranges::all_of(program.stages_before, [&](int before) {
               return stages_[static_cast<std::size_t>(before)].forwards > microbatch;
             });
    case ActionKind::kBackward:
    case ActionKind::kInputGrad:
      return own.inputs == microbatch && own.forwards > microbatch &&
             (action.kind == ActionKind::kInputGrad || own.weights == microbatch) &&
             std::ranges::all_of(program.stages_before,
                                 [&](int before) { return stages_[static_cast<std::size_t>(before)].inputs > microbatch; });
    case ActionKind::kWeightGrad: return own.weights == microbatch && own.inputs > microbatch;
    default: return false;
  }
}

void QuickSimulation::end(const Action& action, const Program& program, double time) {
  Stage& own = stages_[static_cast<std::size_t>(action.stage)];
  own.forwards += action.kind == ActionKind::kForward ? 1U : 0U;
  own.inputs += gives_input_grad(action.kind) ? 1U : 0U;
  own.weights += gives_weight_grad(action.kind) ? 1U : 0U;
  for (std::size_t e = program.first; e < program.past; ++e) {
    if (!events_[e].makes) tensor(events_[e].lane, static_cast<std::size_t>(action.microbatch)).used = time;
  }
}

/// The transfer of a tensor that exists.
void QuickSimulation::move(int l, std::size_t microbatch) {
  Lane& lane = lanes_[static_cast<std::size_t>(l)];
  Tensor& moved = tensor(l, microbatch);
  moved.start = moved.made;
  moved.held_up = HeldUp::kByMaking;
  if (lane.free_at > moved.start) {
    moved.start = lane.free_at;
    moved.held_up = HeldUp::kByLane;
  }
  const auto credits = static_cast<std::size_t>(request_.simulation.credits);
  if (credits > 0 && microbatch >= credits && tensor(l, microbatch - credits).used > moved.start) {
    moved.start = tensor(l, microbatch - credits).used;
    moved.held_up = HeldUp::kByCredit;
  }
  moved.end = lane.free_at = moved.start + lane.seconds;
}

QuickSimulation::Progress QuickSimulation::run(const Schedule& schedule, std::size_t actor, double longest) {
  Cursor& cursor = cursors_[actor];
  const std::vector<Action>& actions = schedule.actors[actor];
  const double work = work_of_stages_[actor] + request_.costs.per_action * static_cast<double>(actions.size()) + reduce_[actor] +
                      request_.costs.exchange + optimizer_;
  double time = cursor.time;
  for (; cursor.index < actions.size(); ++cursor.index) {
    const Action& action = actions[cursor.index];
    const Program& program = programs_[program_of(action)];
    const auto microbatch = static_cast<std::size_t>(action.microbatch);
    if (!cursor.begun) {
      if (!begin(action, program)) return Progress::kImpossible;
      cursor.begun = true;
      cursor.event = program.first;
      cursor.now = {};
    }
    for (; cursor.event < program.past; ++cursor.event) {
      const Event& event = events_[cursor.event];
      if (cursor.event == program.start) cursor.now.start = time;
      Lane& lane = lanes_[static_cast<std::size_t>(event.lane)];
      if (!event.makes) {
        if (lane.made <= microbatch) {
          cursor.blocked_on = event.lane;
          cursor.time = time;
          return Progress::kBlocked;
        }
        time += event.before;
        move(event.lane, microbatch);
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
      const auto receiver = static_cast<std::size_t>(lane.to_actor);
      Cursor& other = cursors_[receiver];
      if (other.blocked_on != event.lane || other.queued) continue;
      other.blocked_on = -1;
      other.queued = true;
      queue_.push_back(receiver);
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

void QuickSimulation::note_peak(std::size_t actor, double peak, Outcome& outcome) const {
  outcome.peak = std::max(outcome.peak, peak);
  if (!request_.memory_of_actor.empty() && peak > request_.memory_of_actor[actor] * (1 + 1e-9)) outcome.fits = false;
}

/// Where tensors weigh nothing, memory follows the order alone.
void QuickSimulation::sweep_activations(const Schedule& schedule, Outcome& outcome) {
  for (std::size_t actor = 0; actor < cursors_.size(); ++actor) {
    double held = 0, peak = 0;
    for (const Action& action : schedule.actors[actor]) {
      const StageCosts& stage = request_.costs.stages[static_cast<std::size_t>(action.stage)];
      const double dropped = stage.recomputes ? stage.activations - stage.kept_for_recompute : 0;
      if (action.kind == ActionKind::kForward) held += stage.activations;
      else if (action.kind != ActionKind::kWeightGrad) held += dropped;
      peak = std::max(peak, held);
      switch (action.kind) {
        case ActionKind::kForward: held -= dropped; break;
        case ActionKind::kInputGrad: held += stage.for_weight_grad - stage.activations; break;
        case ActionKind::kWeightGrad: held -= stage.for_weight_grad; break;
        default: held -= stage.activations; break;
      }
    }
    note_peak(actor, peak, outcome);
  }
}

/// As record_memory() of the simulation does.
void QuickSimulation::sweep_tensors(const Schedule& schedule, Outcome& outcome) {
  for (auto& changes : changes_) changes.clear();
  const auto hold = [&](int actor, double from, double to, double bytes) {
    if (to <= from || bytes == 0) return;
    changes_[static_cast<std::size_t>(actor)].emplace_back(from, bytes);
    changes_[static_cast<std::size_t>(actor)].emplace_back(to, -bytes);
  };
  // By stage, what each microbatch's F and input gradient made when; for hand-overs on one actor.
  std::vector<double> forward_end(stages_.size() * microbatches_), input_end(stages_.size() * microbatches_);
  for (std::size_t actor = 0; actor < cursors_.size(); ++actor) {
    auto& changes = changes_[actor];
    for (std::size_t i = 0; i < schedule.actors[actor].size(); ++i) {
      const Action& action = schedule.actors[actor][i];
      const auto [start, end] = span(actor, i);
      const std::size_t at = static_cast<std::size_t>(action.stage) * microbatches_ + static_cast<std::size_t>(action.microbatch);
      const StageCosts& stage = request_.costs.stages[static_cast<std::size_t>(action.stage)];
      const double dropped = stage.recomputes ? stage.activations - stage.kept_for_recompute : 0;
      if (action.kind == ActionKind::kForward) {
        forward_end[at] = end;
        changes.emplace_back(start, stage.activations);
        if (dropped != 0) changes.emplace_back(end, -dropped);
      } else if (action.kind == ActionKind::kWeightGrad) {
        changes.emplace_back(end, -stage.for_weight_grad);
      } else {
        input_end[at] = end;
        if (dropped != 0) changes.emplace_back(start, dropped);
        changes.emplace_back(end, (action.kind == ActionKind::kInputGrad ? stage.for_weight_grad : 0) - stage.activations);
      }
    }
  }
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    for (std::size_t i = 0; i < microbatches_; ++i) {
      if (lane.exists) {
        const Tensor& one = tensor(static_cast<int>(l), i);
        hold(lane.from_actor, one.made, one.end, lane.bytes);
        hold(lane.to_actor, one.start, one.used, lane.bytes);
      } else if (lane.from_actor == lane.to_actor) {
        const std::vector<double>& end = l % 2 == 0 ? forward_end : input_end;
        hold(lane.to_actor, end[static_cast<std::size_t>(lane.from_stage) * microbatches_ + i],
             end[static_cast<std::size_t>(lane.to_stage) * microbatches_ + i], lane.bytes);
      }
    }
  }
  for (std::size_t actor = 0; actor < changes_.size(); ++actor) {
    std::ranges::sort(changes_[actor]);
    double held = 0, peak = 0;
    for (const auto& [time, change] : changes_[actor]) {
      held += change;
      peak = std::max(peak, held);
    }
    note_peak(actor, peak, outcome);
  }
}

std::vector<std::pair<int, int>> QuickSimulation::held_up_by_order(const Schedule& schedule) const {
  std::vector<int> place(programs_.size() * microbatches_, -1);
  std::size_t actor = 0;
  for (std::size_t a = 0; a < cursors_.size(); ++a) {
    for (std::size_t i = 0; i < schedule.actors[a].size(); ++i) {
      const Action& action = schedule.actors[a][i];
      place[program_of(action) * microbatches_ + static_cast<std::size_t>(action.microbatch)] = static_cast<int>(i);
    }
    if (cursors_[a].time > cursors_[actor].time) actor = a;
  }
  /// The place of the action of this kind, or of the B that does it too.
  const auto place_of = [&](int stage, bool backward, std::size_t microbatch) {
    const auto at = [&](ActionKind kind) { return place[program_of({stage, kind, 0}) * microbatches_ + microbatch]; };
    if (!backward) return at(ActionKind::kForward);
    return std::max(at(ActionKind::kInputGrad), at(ActionKind::kBackward));
  };
  std::vector<std::pair<int, int>> found;
  int index = static_cast<int>(schedule.actors[actor].size()) - 1;
  while (index >= 0) {
    const Played& one = played_[first_[actor] + static_cast<std::size_t>(index)];
    if (one.lane < 0) {
      if (index > 0) found.emplace_back(static_cast<int>(actor), index);
      --index;
      continue;
    }
    const Lane& lane = lanes_[static_cast<std::size_t>(one.lane)];
    const bool backward = one.lane % 2 == 1;
    auto microbatch = static_cast<std::size_t>(schedule.actors[actor][static_cast<std::size_t>(index)].microbatch);
    while (tensor(one.lane, microbatch).held_up == HeldUp::kByLane) --microbatch;
    if (tensor(one.lane, microbatch).held_up == HeldUp::kByCredit) {
      index = place_of(lane.to_stage, backward, microbatch - static_cast<std::size_t>(request_.simulation.credits));
    } else {
      actor = static_cast<std::size_t>(lane.from_actor);
      index = place_of(lane.from_stage, backward, microbatch);
    }
  }
  std::ranges::reverse(found);
  return found;
}

}  // namespace weft::mesh

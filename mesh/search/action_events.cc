#include "mesh/search/internal/action_events.h"

#include <algorithm>
#include <tuple>

namespace weft::mesh {

ActionEvents::ActionEvents(const SearchRequest& request) : request_(request) {
  add_lanes();
  for (int stage = 0; stage < std::ssize(request_.actor_of_stage); ++stage) {
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward,
                                  ActionKind::kInputGrad, ActionKind::kWeightGrad})
      add_program(stage, kind);
  }
}

void ActionEvents::add_lanes() {
  for (const EdgeCosts& edge : request_.costs.edges) {
    holds_tensors_ = holds_tensors_ || edge.edge.bytes > 0;
    for (const bool backward : {false, true}) {
      EdgeLane lane;
      lane.from_stage = backward ? edge.edge.to : edge.edge.from;
      lane.to_stage = backward ? edge.edge.from : edge.edge.to;
      lane.from_actor = request_.actor_of_stage[lane.from_stage];
      lane.to_actor = request_.actor_of_stage[lane.to_stage];
      lane.exists = lane.from_actor != lane.to_actor &&
                    (backward ? edge.backward_timing : edge.forward_timing).exists;
      lane.seconds = backward ? edge.backward : edge.forward;
      lane.bytes = edge.edge.bytes;
      if (!request_.costs.nic_of_actor.empty()) {
        lane.out = request_.costs.nic_of_actor[lane.from_actor];
        lane.in = request_.costs.nic_of_actor[lane.to_actor];
      }
      lanes_.push_back(lane);
    }
  }
}

std::vector<int> ActionEvents::stages_before(int stage, ActionKind kind) const {
  std::vector<int> stages;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const EdgeLane& lane = lanes_[l];
    if (carries(l, kind) && lane.from_actor == lane.to_actor && lane.to_stage == stage)
      stages.push_back(lane.from_stage);
  }
  return stages;
}

std::vector<ActionEvents::TensorEvent> ActionEvents::tensor_events(int stage,
                                                                   ActionKind kind) const {
  const StageCosts& costs = request_.costs.stages[stage];
  const double whole = time_until(costs, kind, 1, 1);
  std::vector<TensorEvent> events;
  bool cut = false;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const EdgeLane& lane = lanes_[l];
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

void ActionEvents::add_program(int stage, ActionKind kind) {
  ActionProgram program;
  program.stages_before = stages_before(stage, kind);
  program.first = program.start = events_.size();
  double done = 0, lost = request_.costs.dispatch_time;
  for (const TensorEvent& at : tensor_events(stage, kind)) {
    ActionEvent event{at.position - done, at.lane, at.makes};
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

}  // namespace weft::mesh

#include "mesh/schedule/internal/step_graph.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "mesh/schedule/action_order.h"

namespace weft::mesh {
namespace {

/// Returns whether a tensor is computed at the end and needed at the beginning of actions.
bool is_whole(const TensorTiming& when) {
  return when.produced_at == 1 && when.produced_at_weights == 1 && when.needed_at == 0 &&
         when.needed_at_weights == 0;
}

/// Returns the transfer time between actors for a dependency with a vocabulary pass on either side.
double vocabulary_seconds(const ActionGraph& actions, int user, int maker,
                          const ScheduleCosts& costs) {
  const ActionKind made_by = actions.action(maker).kind, used_by = actions.action(user).kind;
  const auto is_own = [&] { return actions.actor(user) == actions.actor(maker); };
  switch (used_by) {
    case ActionKind::kVocabularyGrads: return costs.vocabulary_exchange;
    case ActionKind::kVocabularyScores:
    case ActionKind::kInputBackward: return is_own() ? 0 : costs.vocabulary_tensor;
    default: break;
  }
  switch (made_by) {
    // With one barrier, the gradient directly follows the exchange.
    case ActionKind::kVocabularyScores: return costs.vocabulary_exchange + costs.vocabulary_tensor;
    case ActionKind::kVocabularyGrads:
      return gives_input_grad(used_by) ? costs.vocabulary_tensor : 0;
    case ActionKind::kInputForward: return costs.vocabulary_tensor;
    default: return 0;
  }
}

}  // namespace

StepGraph::StepGraph(const ScheduleCosts& costs, const SimulationOptions& options,
                     const Schedule& schedule, const ActionGraph& actions)
    : costs_(costs), options_(options), actions_(actions) {
  find_transfers();
  find_compounds();
  cut_actions();
  for (const TensorTransfer& one : transfers_) {
    const EdgeCosts& edge = costs.edges[one.edge];
    duration_.push_back(one.backward ? edge.backward : edge.forward);
  }
  if (options.blocking) build_global_order(schedule);
  const auto skips_input_grad = [](const EdgeCosts& edge) {
    return edge.backward_timing.for_weights_only;
  };
  if (!options.blocking && std::ranges::any_of(costs.edges, skips_input_grad))
    find_send_waits(schedule);
  add_tasks();
  add_arcs();
}

void StepGraph::find_transfers() {
  for (int node = 0; node < actions_.size(); ++node) {
    for (const ActionGraph::ActionDependency& need : actions_.needs(node)) {
      if (need.edge < 0 || actions_.actor(need.node) == actions_.actor(node)) continue;
      TensorTransfer one{
          need.edge, actions_.action(node).kind != ActionKind::kForward, need.node, node, 0, 0};
      if (!timing(one).exists) continue;
      const Action& user = actions_.action(node);
      if (timing(one).for_weights_only && user.kind == ActionKind::kInputGrad) {
        one.consumer =
            actions_.find(ActionKind::kWeightGrad, user.stage, user.microbatch).value_or(node);
      }
      transfers_.push_back(one);
    }
  }
  // Sort each edge and direction by production order.
  std::ranges::sort(transfers_, {}, [](const TensorTransfer& one) {
    return std::tuple(one.edge, one.backward, one.producer);
  });
}

/// Returns the time within the action when these parts of its F or I, and of its W, are done.
double StepGraph::position(int action, double work, double weights) const {
  const Action& one = actions_.action(action);
  return time_until(costs_.stages[one.stage], one.kind, work, weights);
}

void StepGraph::find_compounds() {
  compounds_.assign(actions_.size(), nullptr);
  if (costs_.compounds.empty() || options_.blocking) return;
  for (int begin = 0; begin < actions_.size(); begin = actions_.compound_end(begin) + 1) {
    std::vector<Action> members;
    for (int node = begin; node <= actions_.compound_end(begin); ++node)
      members.push_back(actions_.action(node));
    compounds_[begin] = find_compound(costs_, members);
  }
}

double StepGraph::length(int action) const {
  const auto alone = [&](int node) {
    return mesh::duration(costs_, actions_.action(node)) - costs_.dispatch_time;
  };
  const CompoundCosts* compound = compound_of(action);
  if (compound == nullptr) return alone(action);
  double sum = 0;
  for (int node = actions_.compound_begin(action); node <= actions_.compound_end(action); ++node)
    sum += alone(node);
  return sum > 0 ? alone(action) / sum * compound->time : 0;
}

StepGraph::TensorPoint StepGraph::point_in_compound(std::size_t transfer) const {
  const TensorTransfer& one = transfers_[transfer];
  const CompoundCosts* compound = compound_of(one.producer);
  const int begin = actions_.compound_begin(one.producer);
  const auto made = compound->made_at.find({one.edge, one.producer - begin});
  double left = made != compound->made_at.end() ? made->second * compound->time : compound->time;
  int action = begin;
  for (; action < actions_.compound_end(begin) && left > length(action); ++action)
    left -= length(action);
  return {action, left, timing(one).produced_step, true, transfer, left < length(action)};
}

std::vector<StepGraph::TensorPoint> StepGraph::find_events() const {
  std::vector<TensorPoint> events;
  const bool whole = std::ranges::none_of(costs_.stages, &StageCosts::recomputes) &&
                     costs_.compounds.empty() &&
                     std::ranges::all_of(costs_.edges, [](const EdgeCosts& edge) {
                       return is_whole(edge.forward_timing) && is_whole(edge.backward_timing);
                     });
  if (whole || options_.blocking) return events;
  std::vector<bool> is_cut(actions_.size(), false);
  for (std::size_t t = 0; t < transfers_.size(); ++t) {
    const TensorTransfer& one = transfers_[t];
    const TensorTiming& when = timing(one);
    const double made = position(one.producer, when.produced_at, when.produced_at_weights);
    const double needed = position(one.consumer, when.needed_at, when.needed_at_weights);
    if (compound_of(one.producer) != nullptr) events.push_back(point_in_compound(t));
    else
      events.push_back(
          {one.producer, made, when.produced_step, true, t, made < position(one.producer, 1, 1)});
    if (!is_in_compound(one.consumer))
      events.push_back({one.consumer, needed, when.needed_step, false, t, needed > 0});
  }
  for (const TensorPoint& event : events) {
    const std::size_t action = event.action;
    is_cut[action] = is_cut[action] || event.cuts;
  }
  std::erase_if(events, [&](const TensorPoint& event) {
    return !is_cut[event.action] && compound_of(event.action) == nullptr;
  });
  std::ranges::sort(events, {}, [](const TensorPoint& event) {
    return std::tuple(event.action, event.position, event.step, event.makes, event.transfer);
  });
  return events;
}

void StepGraph::cut_actions() {
  const std::vector<TensorPoint> events = find_events();
  auto event = events.begin();
  for (int action = 0; action < actions_.size(); ++action) {
    first_piece_.push_back(duration_.size());
    const auto begin = event;
    while (event != events.end() && event->action == action) ++event;
    if (begin != event) {
      cut(action, begin, event);
    } else if (actions_.action(action).kind == ActionKind::kReduceGrad && !options_.blocking) {
      duration_.push_back(costs_.dispatch_time);  // The reduction itself overlaps computation.
    } else {
      duration_.push_back(costs_.dispatch_time + length(action));
    }
    action_of_.resize(duration_.size(), action);
  }
  first_piece_.push_back(duration_.size());
  std::vector<bool> done(2 * transfers_.size(), false);
  for (const TensorPoint& one : events) done[2 * one.transfer + (one.makes ? 1 : 0)] = true;
  for (std::size_t t = 0; t < transfers_.size(); ++t) {
    TensorTransfer& one = transfers_[t];
    if (!done[2 * t]) one.needed_by = begin_piece(one.consumer);
    if (!done[2 * t + 1]) one.made_by = last_piece(one.producer);
  }
}

void StepGraph::cut(int action, std::vector<TensorPoint>::const_iterator begin,
                    std::vector<TensorPoint>::const_iterator end) {
  const std::size_t first = duration_.size();
  duration_.push_back(costs_.dispatch_time);
  double at = 0;
  bool waits = false;  // The current piece waits for a tensor.
  // The current piece has a duration, so that a later wait needs a new piece.
  bool is_open = false;
  const auto advance = [&](double to) {
    if (to <= at) return;
    duration_.back() += to - at;
    at = to;
    is_open = true;
  };
  for (auto event = begin; event != end; ++event) {
    TensorTransfer& one = transfers_[event->transfer];
    advance(event->position);
    if (event->makes) {
      // The tensor of an empty piece without waits belongs to the previous piece.
      const bool before = !is_open && !waits && duration_.size() - 1 > first;
      one.made_by = std::ssize(duration_) - (before ? 2 : 1);
      if (before) continue;
      duration_.push_back(0);
      is_open = waits = false;
    } else {
      if (is_open) {
        duration_.push_back(0);
        is_open = false;
      }
      one.needed_by = std::ssize(duration_) - 1;
      waits = true;
    }
  }
  advance(compound_of(action) != nullptr ? length(action) : position(action, 1, 1));
  if (!is_open && !waits && duration_.size() - 1 > first) duration_.pop_back();
}

/// Builds each actor's list in the global order, as Lowering::kSafe does.
void StepGraph::build_global_order(const Schedule& schedule) {
  std::vector<std::vector<std::size_t>> made(actions_.size());
  for (std::size_t t = 0; t < transfers_.size(); ++t) made[transfers_[t].producer].push_back(t);
  for (std::vector<std::size_t>& tensors : made) {
    std::ranges::sort(tensors, {}, [&](std::size_t t) {
      const TensorTiming& when = timing(transfers_[t]);
      return std::tuple(
          position(transfers_[t].producer, when.produced_at, when.produced_at_weights),
          when.produced_step, t);
    });
  }
  lists_.resize(actions_.num_actors());
  const auto run = [&](const ActionPlace& place) {
    const int action = actions_.first(place.actor) + static_cast<int>(place.index);
    lists_[place.actor].push_back(first_piece(action));
    return made[action];
  };
  const auto move = [&](std::size_t t) {
    for (const int end : {transfers_[t].producer, transfers_[t].consumer}) {
      lists_[actions_.actor(end)].push_back(node_of(t));
    }
  };
  walk_global_order(order_actions(schedule, costs_.stage_edges()), run, move);
}

/// Finds the action that starts only after a tensor's arrival. A sender waits for the arrival at
/// the end of the first action that, by the schedule, cannot begin before the tensor is used
/// (Lane::arrival_known_at). The wait costs time only if that action is an I that does not need its
/// gradient.
void StepGraph::find_send_waits(const Schedule& schedule) {
  const std::vector<StageEdge> edges = costs_.stage_edges();
  const ActionHistory history(schedule, edges, order_actions(schedule, edges));
  for (const TensorTransfer& one : transfers_) {
    const int from = actions_.actor(one.producer), to = actions_.actor(one.consumer);
    const std::size_t index = one.consumer - actions_.first(to);
    const int waiting = actions_.first(from) + static_cast<int>(history.first_action_after(
                                                   {static_cast<std::size_t>(to), index}, from));
    const int past = actions_.first(from + 1);
    const int next = waiting < past ? actions_.compound_end(waiting) + 1 : past;
    send_waits_.push_back(next < past ? next : -1);
  }
}

void StepGraph::add_tasks() {
  tasks_.links.sharing = costs_.sharing == InterfaceSharing::kFair ? SharedLinks::Sharing::kFair
                                                                   : SharedLinks::Sharing::kFifo;
  if (!costs_.nic_of_actor.empty()) {
    const std::size_t interfaces = costs_.num_nics();
    // Interface i: egress link 2i, ingress link 2i + 1.
    tasks_.links.rates.assign(2 * interfaces, 1);
    tasks_.links.queues = interfaces;
  }
  for (std::size_t node = 0; node < size(); ++node) {
    if (node < num_pieces()) tasks_.add(duration_[node]);
    else add_transfer(transfer_of(node), duration_[node]);
  }
}

TaskId StepGraph::add_transfer(const TensorTransfer& transfer, double seconds) {
  if (costs_.nic_of_actor.empty()) return tasks_.add(seconds);
  const auto interface_of = [&](int action) {
    return static_cast<std::uint32_t>(costs_.nic_of_actor[actions_.actor(action)]);
  };
  const std::uint32_t from = interface_of(transfer.producer), to = interface_of(transfer.consumer);
  const bool fair = costs_.sharing == InterfaceSharing::kFair;
  // Transfers between actors of one interface do not use it.
  if (from == to || (fair && seconds <= 0)) return tasks_.add(seconds);
  Movement movement;
  movement.link_uses = {{2 * from, 1}, {2 * to + 1, 1}};
  movement.amount = seconds;
  if (fair) {
    const TensorTiming& when = timing(transfer);
    movement.weight = std::clamp(when.send_share, 1e-6, 1.0);
    movement.queue = {from, movement.weight, 1};
    movement.latency = std::min(when.latency, seconds);
    movement.amount -= movement.latency;
  }
  return tasks_.add(std::move(movement));
}

void StepGraph::add_arcs() {
  add_arcs_of_actions();
  for (const std::vector<std::size_t>& list : lists_) {
    for (std::size_t i = 1; i < list.size(); ++i) wait(list[i - 1], list[i]);
  }
  if (lists_.empty()) add_arcs_of_transfers();
}

void StepGraph::add_arcs_of_actions() {
  for (int action = 0; action < actions_.size(); ++action) {
    const std::size_t first = first_piece(action);
    if (actions_.previous(action) >= 0 && lists_.empty()) wait(first - 1, first);
    for (std::size_t piece = first; piece < last_piece(action); ++piece) wait(piece, piece + 1);
    for (const ActionGraph::ActionDependency& need : actions_.needs(action)) {
      // Dependencies met by a transfer wait for the transfer instead.
      if (actions_.in_one_compound(need.node, action)) continue;
      if (need.edge < 0 && vocabulary_seconds(actions_, action, need.node, costs_) > 0) {
        add_vocabulary_arcs(action, need);
      } else if (need.edge < 0 || actions_.actor(need.node) == actions_.actor(action)) {
        wait(end_piece(need.node), begin_piece(action));
      }
    }
  }
}

void StepGraph::add_vocabulary_arcs(int action, const ActionGraph::ActionDependency& need) {
  const ActionKind made_by = actions_.action(need.node).kind,
                   used_by = actions_.action(action).kind;
  const auto [move, is_new] = vocabulary_moves_.try_emplace(
      {made_by, used_by, actions_.action(action).microbatch}, VocabularyMove{});
  if (is_new) {
    move->second = {action, tasks_.add(vocabulary_seconds(actions_, action, need.node, costs_))};
  }
  // All users depend on the same actions, so only the first adds the dependencies.
  if (move->second.user == action)
    tasks_.add_dependency(move->second.task, TaskId(end_piece(need.node)));
  tasks_.add_dependency(TaskId(begin_piece(action)), move->second.task);
}

void StepGraph::add_arcs_of_transfers() {
  const bool in_turn = costs_.nic_of_actor.empty() || costs_.sharing == InterfaceSharing::kFifo;
  for (std::size_t t = 0; t < transfers_.size(); ++t) {
    wait(transfers_[t].made_by, node_of(t));
    wait(node_of(t), transfers_[t].needed_by);
    if (!send_waits_.empty() && send_waits_[t] >= 0) wait(node_of(t), first_piece(send_waits_[t]));
    if (in_turn && t > 0 && same_lane(t - 1, t)) wait(node_of(t - 1), node_of(t));
  }
  if (options_.credits > 0) add_arcs_of_credits();
}

/// Makes each transfer wait for the compound that frees its buffer. A compound may use several
/// tensors of a lane.
void StepGraph::add_arcs_of_credits() {
  const std::size_t credits = options_.credits;
  for (std::size_t begin = 0, end = 0; begin < transfers_.size(); begin = end) {
    // Receives are posted in the order of use.
    std::vector<std::size_t> lane;
    for (; end < transfers_.size() && same_lane(begin, end); ++end) lane.push_back(end);
    std::ranges::stable_sort(lane, {}, [&](std::size_t t) { return transfers_[t].consumer; });
    std::vector<int> users;  // First members of the compounds so far.
    for (const std::size_t t : lane) {
      const int user = actions_.compound_begin(transfers_[t].consumer);
      if (users.empty() || users.back() != user) users.push_back(user);
      if (users.size() > credits) wait(end_piece(users[users.size() - 1 - credits]), node_of(t));
    }
  }
}

}  // namespace weft::mesh

#include "mesh/search/internal/local_search.h"

#include <algorithm>
#include <random>

#include "core/base/error.h"

namespace weft::mesh {
namespace {

/// Returns whether two actions, one of them a vocabulary pass, must keep their order: microbatches
/// stay in order, and S comes before T. The simulation detects violations of other dependencies.
bool keep_vocabulary_order(const Action& a, const Action& b) {
  const auto of_output = [](const Action& one) {
    return one.kind == ActionKind::kVocabularyScores || one.kind == ActionKind::kVocabularyGrads;
  };
  return a.kind == b.kind || (of_output(a) && of_output(b) && a.microbatch == b.microbatch);
}

/// Returns whether two actions of an actor must keep their order. Microbatches stay in order on
/// every stage, so that each edge and each gradient sum sees them in order. A microbatch runs F, I,
/// W.
bool keep_order(const Action& a, const Action& b) {
  if (is_vocabulary_pass(a.kind) || is_vocabulary_pass(b.kind)) return keep_vocabulary_order(a, b);
  if (a.stage != b.stage) return false;
  if (a.microbatch == b.microbatch || !has_microbatch(a.kind) || !has_microbatch(b.kind))
    return true;
  const bool both_forward = a.kind == ActionKind::kForward && b.kind == ActionKind::kForward;
  const bool both_input = gives_input_grad(a.kind) && gives_input_grad(b.kind);
  const bool both_weight = gives_weight_grad(a.kind) && gives_weight_grad(b.kind);
  return both_forward || both_input || both_weight || a.kind == b.kind;
}

std::int64_t count_actions(const Schedule& schedule) {
  std::int64_t count = 0;
  for (const auto& actions : schedule.actors) count += actions.size();
  return count;
}

/// Move of an actor's action from index `from` to index `to`.
struct ActionMove {
  int actor = 0;
  int from = 0;
  int to = 0;
};

bool in_compound(const std::vector<Action>& actions, std::size_t at) {
  return actions[at].joins_previous || (at + 1 < actions.size() && actions[at + 1].joins_previous);
}

bool allowed(const std::vector<Action>& actions, const ActionMove& move) {
  const std::size_t from = move.from, to = move.to;
  if (in_compound(actions, from)) return false;
  for (std::size_t i = std::min(from, to); i <= std::max(from, to); ++i) {
    if (i != from && keep_order(actions[i], actions[from])) return false;
  }
  // Do not split a compound.
  const std::size_t behind = to < from ? to : to + 1;
  return behind >= actions.size() || !actions[behind].joins_previous;
}

void perform(std::vector<Action>& actions, const ActionMove& move) {
  const auto from = actions.begin() + move.from, to = actions.begin() + move.to;
  if (move.to < move.from) std::rotate(to, from, from + 1);
  else std::rotate(from, from + 1, to + 1);
}

ActionMove inverse(const ActionMove& move) { return {move.actor, move.to, move.from}; }

/// Returns the moves to try: an action of the critical path that waits only for its actor moves
/// earlier, or its predecessor moves later.
std::vector<ActionMove> moves_of(const ScheduleEvaluator::Times& times) {
  std::vector<ActionMove> moves;
  for (const auto& [actor, at] : times.blocked_by_order) {
    for (const int distance : {1, 2, 3, 5, 8, 13}) {
      if (at - distance >= 0) moves.push_back({actor, at, at - distance});
    }
    const int last = std::ssize(times.spans[actor]) - 1;
    for (const int distance : {2, 3, 5, 8, 13}) {
      if (at - 1 + distance <= last) moves.push_back({actor, at - 1, at - 1 + distance});
    }
  }
  return moves;
}

/// Returns the moves for annealing: an action behind a gap moves into the gap, and the moves along
/// the critical path. One move in four has `from` < 0 and stands for any action of the actor.
std::vector<ActionMove> moves_into_gaps(const ScheduleEvaluator::Times& times) {
  std::vector<ActionMove> moves;
  for (std::size_t actor = 0; actor < times.spans.size(); ++actor) {
    const int count = times.spans[actor].size();
    double free_from = 0;
    for (int at = 0; at < count; ++at) {
      const auto [start, end] = times.spans[actor][at];
      if (start > free_from) {
        for (int behind = at + 1; behind < std::min(count, at + 10); ++behind) {
          moves.push_back({static_cast<int>(actor), behind, at});
        }
      }
      free_from = end;
    }
  }
  for (const ActionMove& move : moves_of(times)) moves.push_back(move);
  for (std::size_t i = moves.size() / 3 + times.spans.size(); i > 0; --i) {
    moves.push_back({static_cast<int>(i % times.spans.size()), -1, 0});
  }
  return moves;
}

}  // namespace

std::optional<ScheduleSimulation> ScheduleEvaluator::simulated(const Schedule& schedule,
                                                               bool details) {
  SimulationOptions options = request_.simulation;
  options.details = details;
  try {
    return simulate(schedule, request_.costs, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    return std::nullopt;
  }
}

bool ScheduleEvaluator::plays(const Schedule& schedule) const {
  return evaluator_ && !has_compounds(schedule);
}

ScheduleEvaluator::ScheduleEvaluation ScheduleEvaluator::evaluation_of(
    const SearchEvaluator::PlayOutcome& outcome) const {
  return {{outcome.step, outcome.mean_action_end},
          outcome.makespan,
          outcome.peak,
          outcome.finishes && !outcome.too_slow,
          outcome.fits};
}

ScheduleEvaluator::ScheduleEvaluation ScheduleEvaluator::evaluate(const Schedule& schedule,
                                                                  double longest_step) {
  if (!plays(schedule)) return evaluate_with_peak(schedule);
  simulated_ += count_actions(schedule);
  return evaluation_of(evaluator_->play(schedule, longest_step));
}

ScheduleEvaluator::ScheduleEvaluation ScheduleEvaluator::evaluate_with_peak(
    const Schedule& schedule) {
  simulated_ += count_actions(schedule);
  if (plays(schedule))
    return evaluation_of(evaluator_->play(schedule, std::numeric_limits<double>::infinity(), true));
  const std::optional<ScheduleSimulation> simulation = simulated(schedule, false);
  if (!simulation) return {};
  ScheduleEvaluation evaluation{{simulation->step_time, simulation->mean_action_end},
                                simulation->makespan,
                                simulation->peak(),
                                true,
                                true};
  for (std::size_t actor = 0; actor < simulation->actors.size(); ++actor) {
    if (!request_.memory_of_actor.empty() &&
        simulation->actors[actor].peak > request_.memory_of_actor[actor] * (1 + 1e-9)) {
      evaluation.fits = false;
    }
  }
  return evaluation;
}

ScheduleEvaluator::Times ScheduleEvaluator::times_of(const Schedule& schedule) {
  simulated_ += count_actions(schedule);
  Times times;
  if (plays(schedule)) {
    evaluator_->play(schedule);
    for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
      times.spans.emplace_back();
      for (std::size_t i = 0; i < schedule.actors[actor].size(); ++i)
        times.spans.back().push_back(evaluator_->span(actor, i));
    }
    times.blocked_by_order = evaluator_->blocked_by_order(schedule);
    return times;
  }
  const std::optional<ScheduleSimulation> simulation = simulated(schedule, true);
  if (!simulation) return times;
  for (const SimulatedActor& actor : simulation->actors) {
    times.spans.emplace_back();
    for (const SimulatedAction& action : actor.actions)
      times.spans.back().emplace_back(action.start, action.end);
  }
  const auto& path = simulation->critical_path;
  for (std::size_t i = 1; i < path.size(); ++i) {
    if (path[i].transfer || path[i - 1].transfer || path[i].actor != path[i - 1].actor) continue;
    if (path[i].index == path[i - 1].index + 1)
      times.blocked_by_order.emplace_back(path[i].actor, path[i].index);
  }
  return times;
}

Schedule improve(Schedule schedule, ScheduleEvaluator& evaluator) {
  ScheduleScore best = evaluator.evaluate(schedule).score;
  for (bool better = true; better && !evaluator.exhausted();) {
    better = false;
    for (const ActionMove& move : moves_of(evaluator.times_of(schedule))) {
      std::vector<Action>& actions = schedule.actors[move.actor];
      if (!allowed(actions, move)) continue;
      if (evaluator.exhausted()) break;
      perform(actions, move);
      const ScheduleEvaluator::ScheduleEvaluation evaluation =
          evaluator.evaluate(schedule, best.step);
      // Do not count rounding errors as progress.
      const bool gains = evaluation.score.step < best.step * (1 - 1e-12) ||
                         (evaluation.score.step <= best.step &&
                          evaluation.score.mean_action_end < best.mean_action_end * (1 - 1e-12));
      if (evaluation.finishes && evaluation.fits && gains) {
        best = evaluation.score;
        better = true;
        break;
      }
      perform(actions, inverse(move));
    }
  }
  return schedule;
}

Schedule anneal(Schedule schedule, ScheduleEvaluator& evaluator, std::int64_t actions) {
  constexpr std::int64_t kRefresh = 24;  // Moves between two updates of the idle times.
  const auto value = [](const ScheduleScore& score) { return score.step + score.mean_action_end; };
  const std::int64_t from = evaluator.simulated(), until = from + actions;
  Schedule best = schedule;
  ScheduleScore best_score = evaluator.evaluate(schedule).score;
  double now = value(best_score);
  std::mt19937 random(1);  // mt19937 gives the same numbers on all platforms.
  const auto below = [&](std::size_t count) { return static_cast<int>(random() % count); };
  std::vector<ActionMove> moves;
  for (std::int64_t round = 0; evaluator.simulated() < until; ++round) {
    if (round % kRefresh == 0) moves = moves_into_gaps(evaluator.times_of(schedule));
    if (moves.empty()) break;
    ActionMove move = moves[below(moves.size())];
    if (move.from < 0) {
      // Move any action of this actor a little earlier or later.
      const int count = schedule.actors[move.actor].size();
      move.from = below(count);
      move.to = std::clamp(move.from + below(9) - 4, 0, count - 1);
    }
    std::vector<Action>& order = schedule.actors[move.actor];
    if (move.from == move.to || !allowed(order, move)) continue;
    perform(order, move);
    const ScheduleEvaluator::ScheduleEvaluation evaluation = evaluator.evaluate(schedule);
    const double left = (until - evaluator.simulated()) / static_cast<double>(actions);
    const double threshold = 0.004 * best_score.step * std::max(0.0, left) * std::max(0.0, left);
    if (!evaluation.finishes || !evaluation.fits || value(evaluation.score) > now + threshold) {
      perform(order, inverse(move));
      continue;
    }
    now = value(evaluation.score);
    if (evaluation.score < best_score) {
      best_score = evaluation.score;
      best = schedule;
    }
  }
  return best;
}

}  // namespace weft::mesh

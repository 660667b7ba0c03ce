#include "mesh/schedule_search/internal/local_search.h"

#include <algorithm>

#include "core/base/error.h"

namespace weft::mesh {
namespace {

/// Whether two actions of an actor must keep their order: microbatches stay in order on every stage, so that each edge and each
/// sum sees them in order, and a microbatch goes through F, I, W.
bool keep_order(const Action& a, const Action& b) {
  if (a.stage != b.stage) return false;
  if (a.microbatch == b.microbatch || !has_microbatch(a.kind) || !has_microbatch(b.kind)) return true;
  const bool both_forward = a.kind == ActionKind::kForward && b.kind == ActionKind::kForward;
  const bool both_input = gives_input_grad(a.kind) && gives_input_grad(b.kind);
  const bool both_weight = gives_weight_grad(a.kind) && gives_weight_grad(b.kind);
  return both_forward || both_input || both_weight || a.kind == b.kind;
}

/// Take the action at `from` out and put it in at `to`.
struct Move {
  int actor = 0;
  int from = 0;
  int to = 0;
};

bool in_compound(const std::vector<Action>& actions, std::size_t at) {
  return actions[at].joins_previous || (at + 1 < actions.size() && actions[at + 1].joins_previous);
}

bool allowed(const std::vector<Action>& actions, const Move& move) {
  const auto from = static_cast<std::size_t>(move.from), to = static_cast<std::size_t>(move.to);
  if (in_compound(actions, from)) return false;
  for (std::size_t i = std::min(from, to); i <= std::max(from, to); ++i) {
    if (i != from && keep_order(actions[i], actions[from])) return false;
  }
  // A compound must not be torn apart.
  const std::size_t behind = to < from ? to : to + 1;
  return behind >= actions.size() || !actions[behind].joins_previous;
}

void perform(std::vector<Action>& actions, const Move& move) {
  const auto from = actions.begin() + move.from, to = actions.begin() + move.to;
  if (move.to < move.from) std::rotate(to, from, from + 1);
  else std::rotate(from, from + 1, to + 1);
}

Move inverse(const Move& move) { return {move.actor, move.to, move.from}; }

/// The moves worth trying: an action of the critical path that only its actor's order holds up, put earlier, or what it waits for
/// put later.
std::vector<Move> moves_of(const Simulation& simulation) {
  std::vector<Move> moves;
  const auto& path = simulation.critical_path;
  for (std::size_t i = 1; i < path.size(); ++i) {
    if (path[i].transfer || path[i - 1].transfer || path[i].actor != path[i - 1].actor ||
        path[i].index != path[i - 1].index + 1) {
      continue;
    }
    const int actor = path[i].actor, at = path[i].index;
    for (const int distance : {1, 2, 3, 5, 8, 13}) {
      if (at - distance >= 0) moves.push_back({actor, at, at - distance});
    }
    const int last = static_cast<int>(simulation.actors[static_cast<std::size_t>(actor)].actions.size()) - 1;
    for (const int distance : {2, 3, 5, 8, 13}) {
      if (at - 1 + distance <= last) moves.push_back({actor, at - 1, at - 1 + distance});
    }
  }
  return moves;
}

}  // namespace

Simulation Judge::simulated(const Schedule& schedule, bool details) {
  for (const auto& actions : schedule.actors) simulated_ += static_cast<std::int64_t>(actions.size());
  SimulationOptions options = request_.simulation;
  options.details = details;
  return simulate(schedule, request_.costs, options);
}

Simulation Judge::play(const Schedule& schedule) { return simulated(schedule, true); }

Judge::Verdict Judge::judge(const Schedule& schedule) {
  Verdict verdict;
  try {
    const Simulation simulation = simulated(schedule, false);
    verdict.score.makespan = simulation.makespan;
    verdict.finishes = true;
    verdict.fits = true;
    for (std::size_t actor = 0; actor < simulation.actors.size(); ++actor) {
      verdict.score.ends += simulation.actors[actor].end;
      if (!request_.memory_of_actor.empty() && simulation.actors[actor].peak > request_.memory_of_actor[actor] * (1 + 1e-9)) {
        verdict.fits = false;
      }
    }
    verdict.peak = simulation.peak();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
  }
  return verdict;
}

Schedule improve(Schedule schedule, Judge& judge) {
  ScheduleScore best = judge.judge(schedule).score;
  for (bool better = true; better && !judge.exhausted();) {
    better = false;
    for (const Move& move : moves_of(judge.play(schedule))) {
      std::vector<Action>& actions = schedule.actors[static_cast<std::size_t>(move.actor)];
      if (!allowed(actions, move)) continue;
      if (judge.exhausted()) break;
      perform(actions, move);
      const Judge::Verdict verdict = judge.judge(schedule);
      // Rounding must not pass for progress.
      const bool gains = verdict.score.makespan < best.makespan * (1 - 1e-12) ||
                         (verdict.score.makespan <= best.makespan && verdict.score.ends < best.ends * (1 - 1e-12));
      if (verdict.finishes && verdict.fits && gains) {
        best = verdict.score;
        better = true;
        break;
      }
      perform(actions, inverse(move));
    }
  }
  return schedule;
}

}  // namespace weft::mesh

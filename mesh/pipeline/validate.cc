#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "mesh/pipeline/schedule.h"

namespace weft::mesh {
namespace {

/// What has run so far: per (stage, microbatch) forward, input gradient, weight gradient.
class Progress {
 public:
  Progress(const Schedule& schedule, const std::vector<StageEdge>& edges) : edges_(edges) {
    done_.assign(static_cast<std::size_t>(schedule.stages), {});
    for (auto& stage : done_) stage.assign(static_cast<std::size_t>(schedule.microbatches), {});
  }

  /// The first thing that `action` still waits for, or nothing.
  std::optional<Action> waits_for(const Action& action) const {
    const bool forward = action.kind == ActionKind::kForward;
    if (action.kind == ActionKind::kWeightGrad) {
      return done(action.stage, action.microbatch, 1)
                 ? std::nullopt
                 : std::optional(Action{action.stage, ActionKind::kInputGrad, action.microbatch});
    }
    if (!forward && !done(action.stage, action.microbatch, 0)) {
      return Action{action.stage, ActionKind::kForward, action.microbatch};
    }
    for (const StageEdge& edge : edges_) {
      if (forward && edge.to == action.stage && !done(edge.from, action.microbatch, 0)) {
        return Action{edge.from, ActionKind::kForward, action.microbatch};
      }
      if (!forward && edge.from == action.stage && !done(edge.to, action.microbatch, 1)) {
        return Action{edge.to, ActionKind::kBackward, action.microbatch};
      }
    }
    return std::nullopt;
  }

  void run(const Action& action) {
    auto& flags = done_[static_cast<std::size_t>(action.stage)][static_cast<std::size_t>(action.microbatch)];
    if (action.kind == ActionKind::kForward) flags[0] = true;
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGrad) flags[1] = true;
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGrad) flags[2] = true;
  }

 private:
  bool done(int stage, int microbatch, std::size_t what) const {
    return done_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(microbatch)][what];
  }

  const std::vector<StageEdge>& edges_;
  std::vector<std::vector<std::array<bool, 3>>> done_;
};

void check_complete(const Schedule& schedule, bool training) {
  std::map<std::array<int, 3>, int> count;
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    std::map<int, int> last_of_stage;
    for (const Action& action : schedule.actors[actor]) {
      if (action.stage < 0 || action.stage >= schedule.stages || action.microbatch < 0 ||
          action.microbatch >= schedule.microbatches) {
        throw_error(ErrorCode::kInvalidArgument, "schedule '{}', actor {}: {} names a stage or microbatch that does not exist",
                    schedule.name, actor, to_string(action));
      }
      if (schedule.actor_of_stage[static_cast<std::size_t>(action.stage)] != static_cast<int>(actor)) {
        throw_error(ErrorCode::kInvalidArgument, "schedule '{}', actor {}: {} belongs to actor {}", schedule.name, actor,
                    to_string(action), schedule.actor_of_stage[static_cast<std::size_t>(action.stage)]);
      }
      if (++count[{action.stage, action.microbatch, static_cast<int>(action.kind)}] > 1) {
        throw_error(ErrorCode::kInvalidArgument, "schedule '{}', actor {}: {} stands there twice", schedule.name, actor,
                    to_string(action));
      }
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGrad) {
        auto [last, inserted] = last_of_stage.try_emplace(action.stage, -1);
        if (action.microbatch < last->second) {
          throw_error(ErrorCode::kInvalidArgument,
                      "schedule '{}', actor {}: {} comes after the weight gradient of microbatch {}; weight gradients must be in "
                      "microbatch order, so that sums do not depend on the schedule",
                      schedule.name, actor, to_string(action), last->second);
        }
        last->second = action.microbatch;
      }
    }
  }
  const auto has = [&](int stage, int microbatch, ActionKind kind) {
    return count.contains({stage, microbatch, static_cast<int>(kind)});
  };
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (int microbatch = 0; microbatch < schedule.microbatches; ++microbatch) {
      const bool b = has(stage, microbatch, ActionKind::kBackward), i = has(stage, microbatch, ActionKind::kInputGrad),
                 w = has(stage, microbatch, ActionKind::kWeightGrad);
      if (!has(stage, microbatch, ActionKind::kForward)) {
        throw_error(ErrorCode::kInvalidArgument, "schedule '{}' never runs {}", schedule.name,
                    to_string(Action{stage, ActionKind::kForward, microbatch}));
      }
      const bool backward_ok = training ? (b ? !i && !w : i && w) : !b && !i && !w;
      if (!backward_ok) {
        throw_error(ErrorCode::kInvalidArgument,
                    "schedule '{}', stage {}, microbatch {}: needs {}, but has B {} times, I {} times, W {} times", schedule.name,
                    stage, microbatch, training ? "either B, or one I and one W" : "no backward", b, i, w);
      }
    }
  }
}

}  // namespace

void validate(const Schedule& schedule, const std::vector<StageEdge>& edges, bool training) {
  if (schedule.actor_of_stage.size() != static_cast<std::size_t>(schedule.stages)) {
    throw_error(ErrorCode::kInvalidArgument, "schedule '{}' has {} stages but places {}", schedule.name, schedule.stages,
                schedule.actor_of_stage.size());
  }
  check_complete(schedule, training);
  Progress progress(schedule, edges);
  std::vector<std::size_t> next(schedule.actors.size(), 0);
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
      while (next[actor] < schedule.actors[actor].size() && !progress.waits_for(schedule.actors[actor][next[actor]])) {
        progress.run(schedule.actors[actor][next[actor]++]);
        moved = true;
      }
    }
  }
  std::string stuck;
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    if (next[actor] == schedule.actors[actor].size()) continue;
    const Action& action = schedule.actors[actor][next[actor]];
    stuck += fmt::format("\n  actor {} is at {}, which waits for {} of actor {}", actor, to_string(action),
                         to_string(*progress.waits_for(action)),
                         schedule.actor_of_stage[static_cast<std::size_t>(progress.waits_for(action)->stage)]);
  }
  if (!stuck.empty()) throw_error(ErrorCode::kInvalidArgument, "schedule '{}' cannot finish:{}", schedule.name, stuck);
}

}  // namespace weft::mesh

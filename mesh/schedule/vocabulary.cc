#include "mesh/schedule/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/base/error.h"

namespace weft::mesh {
namespace {

constexpr VocabularyMode kModes[] = {VocabularyMode::kLast, VocabularyMode::kVocab1,
                                     VocabularyMode::kVocab2, VocabularyMode::kInterlaced};

constexpr ActionKind kPasses[] = {ActionKind::kVocabularyScores, ActionKind::kVocabularyGrads,
                                  ActionKind::kInputForward, ActionKind::kInputBackward};

/// Passes and microbatches that each actor has.
class Passes {
 public:
  explicit Passes(const Schedule& schedule) : schedule_(schedule) {
    const std::size_t microbatches = schedule.microbatches;
    for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
      ActorPasses& row = rows_.emplace_back();
      for (const Action& action : schedule.actors[actor]) {
        if (!is_vocabulary_pass(action.kind)) continue;
        check_name(row, actor, action);
        std::vector<bool>& seen = row.seen[index_of(action.kind)];
        seen.resize(microbatches, false);
        const std::size_t microbatch = action.microbatch;
        if (microbatch >= microbatches) continue;  // ActionGraph reports microbatches out of range.
        seen[microbatch] = true;
        any_[index_of(action.kind)] = true;
      }
    }
  }

  bool any(ActionKind kind) const { return any_[index_of(kind)]; }

  void check_every_actor_has(ActionKind kind, const std::string& why) const {
    for (std::size_t actor = 0; actor < rows_.size(); ++actor) {
      const std::vector<bool>& seen = rows_[actor].seen[index_of(kind)];
      for (int microbatch = 0; microbatch < schedule_.microbatches; ++microbatch) {
        if (!seen.empty() && seen[microbatch]) continue;
        throw_error(ErrorCode::kInvalidArgument,
                    "schedule '{}', actor {}: there is no {} of microbatch {}; {}", schedule_.name,
                    actor, to_string(kind), microbatch, why);
      }
    }
  }

 private:
  struct ActorPasses {
    std::optional<Action> named;
    std::array<std::vector<bool>, std::size(kPasses)> seen;
  };

  static std::size_t index_of(ActionKind kind) {
    return std::ranges::find(kPasses, kind) - std::begin(kPasses);
  }

  void check_name(ActorPasses& row, std::size_t actor, const Action& action) const {
    if (!row.named) row.named = action;
    if (row.named->stage == action.stage) return;
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}', actor {}: {} and {} name different stages, but an actor has one "
                "part of the vocabulary; name all of S, T, IF and IB by one of its stages",
                schedule_.name, actor, to_string(*row.named), to_string(action));
  }

  const Schedule& schedule_;
  std::vector<ActorPasses> rows_;
  std::array<bool, std::size(kPasses)> any_ = {};
};

/// Throws if an actor's T precedes the S of its microbatch.
void check_scores_come_first(const Schedule& schedule) {
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    std::vector<bool> scored(schedule.microbatches, false);
    for (const Action& action : schedule.actors[actor]) {
      const std::size_t microbatch = action.microbatch;
      if (action.kind == ActionKind::kVocabularyScores) scored[microbatch] = true;
      if (action.kind != ActionKind::kVocabularyGrads || scored[microbatch]) continue;
      throw_error(
          ErrorCode::kInvalidArgument,
          "schedule '{}', actor {}: {} comes before {}, but needs the exchange that follows all S "
          "of its microbatch; move it after them",
          schedule.name, actor, to_string(action),
          to_string(Action{action.stage, ActionKind::kVocabularyScores, action.microbatch}));
    }
  }
}

void check_barriers(const Schedule& schedule, bool has_scores) {
  if (has_scores && schedule.vocabulary_barriers == 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' has vocabulary passes S and T, but no barriers: say in its header "
                "'# vocabulary barriers: 1' (vocab-2: the last backward waits for all S) or 2 "
                "(vocab-1: for all T)",
                schedule.name);
  }
  if (!has_scores && schedule.vocabulary_barriers != 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' has {} vocabulary barrier{}, but no vocabulary passes S and T: add "
                "them on every actor, or leave the barriers out",
                schedule.name, schedule.vocabulary_barriers,
                schedule.vocabulary_barriers == 1 ? "" : "s");
  }
}

void check_every_actor_has_its_passes(const Passes& passes, bool training) {
  const std::string all = "every actor has one of each microbatch, or no actor has any";
  // Requires `kind` on every actor. `why` says so if no actor has it.
  const auto require = [&](ActionKind kind, const std::string& why) {
    passes.check_every_actor_has(kind, passes.any(kind) ? all : why);
  };
  require(ActionKind::kVocabularyScores, "T, IF and IB go with S on every actor");
  if (training)
    require(ActionKind::kVocabularyGrads, "every S has its T, which gives the gradients");
  if (!passes.any(ActionKind::kInputForward) && !passes.any(ActionKind::kInputBackward)) return;
  require(ActionKind::kInputForward, "every IB has its IF");
  if (training) require(ActionKind::kInputBackward, "every IF has its IB");
}

/// Returns whether every T directly follows the S of its microbatch.
bool is_interlaced(const Schedule& schedule) {
  for (const std::vector<Action>& actions : schedule.actors) {
    Action before;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kVocabularyGrads &&
          (before.kind != ActionKind::kVocabularyScores || before.microbatch != action.microbatch))
        return false;
      before = action;
    }
  }
  return true;
}

}  // namespace

double VocabularyTimes::of(ActionKind kind, double stages) const {
  switch (kind) {
    case ActionKind::kForward:
    case ActionKind::kRecompute: return forward;
    case ActionKind::kBackward: return input_grad + weight_grad;
    case ActionKind::kInputGrad: return input_grad;
    case ActionKind::kWeightGrad: return weight_grad;
    case ActionKind::kVocabularyScores: return scores * stages;
    case ActionKind::kVocabularyGrads: return grads * stages;
    case ActionKind::kInputForward:
    case ActionKind::kInputBackward: return input * stages;
    default: return 0;
  }
}

std::string_view to_string(VocabularyMode mode) {
  static constexpr std::string_view kNames[] = {"last", "vocab-1", "vocab-2", "interlaced"};
  return kNames[static_cast<std::size_t>(mode)];
}

std::span<const VocabularyMode> vocabulary_modes() { return kModes; }

int vocabulary_barriers(VocabularyMode mode) {
  switch (mode) {
    case VocabularyMode::kLast: return 0;
    case VocabularyMode::kVocab2: return 1;
    default: return 2;
  }
}

void check_vocabulary_passes(const Schedule& schedule, bool training) {
  const Passes passes(schedule);
  const bool grads = passes.any(ActionKind::kVocabularyGrads);
  const bool input_grads = passes.any(ActionKind::kInputBackward);
  const bool scores = passes.any(ActionKind::kVocabularyScores);
  if (training) check_barriers(schedule, scores || grads);
  if (!scores && !grads && !input_grads && !passes.any(ActionKind::kInputForward)) return;
  if (schedule.actors.size() < 2) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' has vocabulary passes (S, T, IF, IB) on one actor: a vocabulary is "
                "split over at least two pipeline stages on different actors; leave the passes out",
                schedule.name);
  }
  if (!training && (grads || input_grads)) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' has T or IB, but only forwards are wanted: leave these out",
                schedule.name);
  }
  check_every_actor_has_its_passes(passes, training);
  check_scores_come_first(schedule);
}

void require_vocabulary(const Schedule& schedule, VocabularyMode mode, bool training) {
  const auto has = [&](ActionKind kind) {
    return std::ranges::any_of(schedule.actors, [&](const std::vector<Action>& actions) {
      return std::ranges::find(actions, kind, &Action::kind) != actions.end();
    });
  };
  const bool wanted = mode != VocabularyMode::kLast;
  for (const ActionKind kind : kPasses) {
    const bool forward = kind == ActionKind::kVocabularyScores || kind == ActionKind::kInputForward;
    if (has(kind) == (wanted && (forward || training))) continue;
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' has {} passes {}, but the vocabulary is '{}': {}", schedule.name,
                has(kind) ? "the" : "no", to_string(kind), to_string(mode),
                has(kind) ? "leave S, T, IF and IB out, or ask for vocab-1 or vocab-2"
                          : "add S, T, IF and IB on every actor, or ask for 'last'");
  }
  if (!training) return;
  if (schedule.vocabulary_barriers != vocabulary_barriers(mode)) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' has {} vocabulary barriers, but '{}' has {}; ask for {}",
                schedule.name, schedule.vocabulary_barriers, to_string(mode),
                vocabulary_barriers(mode),
                schedule.vocabulary_barriers == 1 ? "vocab-2" : "vocab-1");
  }
  if (mode == VocabularyMode::kInterlaced && !is_interlaced(schedule)) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' is not interlaced: some T does not directly follow its S; ask for "
                "vocab-1",
                schedule.name);
  }
}

std::string find_unordered_pass(const Schedule& schedule) {
  for (const ActionKind kind : {ActionKind::kVocabularyScores, ActionKind::kVocabularyGrads,
                                ActionKind::kInputForward, ActionKind::kInputBackward}) {
    std::vector<int> first;
    for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
      std::vector<int> own;
      for (const Action& action : schedule.actors[actor]) {
        if (action.kind == kind) own.push_back(action.microbatch);
      }
      if (actor == 0) first = own;
      const auto differs = std::ranges::mismatch(first, own);
      if (differs.in1 == first.end() || differs.in2 == own.end()) continue;
      return fmt::format(
          "{}: actor 0 runs microbatch {} where actor {} runs {}; all actors must use one order, "
          "as they exchange data",
          to_string(kind), *differs.in1, actor, *differs.in2);
    }
  }
  return "";
}

}  // namespace weft::mesh

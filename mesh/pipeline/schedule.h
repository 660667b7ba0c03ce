#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/codec/codec.h"

namespace weft::mesh {

/// What an actor does at one place of its schedule.
enum class ActionKind : std::uint8_t {
  kForward,     ///< F
  kBackward,    ///< B: input gradient and weight gradient together
  kInputGrad,   ///< I
  kWeightGrad,  ///< W
};

/// One entry of a schedule: run `kind` of `stage` for `microbatch`.
struct Action {
  int stage = 0;
  ActionKind kind = ActionKind::kForward;
  int microbatch = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

/// "1F3", "0B2": stage, kind, microbatch; the spelling of PyTorch's pipelining actions.
std::string to_string(const Action& action);

/// A pipeline schedule: per actor (a mesh) the ordered actions of one training step. Data, not code: communication is inferred.
struct Schedule {
  std::string name;
  int stages = 0;
  int microbatches = 0;
  std::vector<int> actor_of_stage;
  std::vector<std::vector<Action>> actors;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// One line per actor: "actor 0: 0F0 0F1 0B0 ...".
std::string to_string(const Schedule& schedule);

/// Names that make_schedule() knows, in the order to show them.
std::vector<std::string> schedule_names();

/// Builds a named schedule for `stages` stages, one per actor.
///   gpipe       all forwards, then all backwards
///   1f1b        actor i warms up with stages - 1 - i forwards, then one forward, one backward
///   eager-1f1b  warms up with min(m, 2 (stages - i) - 1) forwards, so that transfers hide (Zhuang et al., MLSys 2023)
/// Backwards run in microbatch order, so gradients are summed in the same order under every schedule.
/// Throws Error(kInvalidArgument) for an unknown name (naming the nearest) or a count below 1.
Schedule make_schedule(std::string_view name, int stages, int microbatches);

/// Forwards only, in microbatch order: validation.
Schedule make_forward_schedule(int stages, int microbatches);

/// A dependency between stages: what `from` produces, `to` needs.
struct StageEdge {
  int from = 0;
  int to = 0;
};

/// Checks that every stage has a forward and a backward (B, or one I and one W) of every microbatch exactly once, each on its own
/// actor, in an order that every data edge allows (forward along edges, input gradients against them), and weight gradients in
/// microbatch order. Throws Error(kInvalidArgument) naming actor, action and, for a deadlock, the cycle of waits. `training`
/// false: forwards only.
void validate(const Schedule& schedule, const std::vector<StageEdge>& edges, bool training = true);

}  // namespace weft::mesh

template <>
struct weft::last_enumerator<weft::mesh::ActionKind> {
  static constexpr auto kValue = weft::mesh::ActionKind::kWeightGrad;
};

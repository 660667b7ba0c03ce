#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/codec/codec.h"

namespace weft::mesh {

/// Kind of an action in an actor's schedule.
enum class ActionKind : std::uint8_t {
  kForward,     ///< F
  kBackward,    ///< B: input gradient and weight gradient together
  kInputGrad,   ///< I
  kWeightGrad,  ///< W
  kRecompute,   ///< R: recomputes activations that were dropped after F
  /// S: the actor's shard of the output layer, before the exchange of maxima and sums (Vocabulary
  /// Parallelism, arXiv 2411.05288).
  kVocabularyScores,
  kVocabularyGrads,  ///< T: gradients of the actor's output layer shard, after the exchange
  kInputForward,     ///< IF: lookup in the actor's shard of the input embedding
  kInputBackward,    ///< IB: gradients of the looked-up rows
  kReduceGrad,       ///< REDUCE_GRAD: sums a stage's gradients over its replicas; has no microbatch
  kOptimizer,        ///< OPT: the stage's optimizer step; has no microbatch
};

/// Microbatch number of actions that run once per step.
inline constexpr int kNoMicrobatch = -1;

/// Entry of a schedule: run `kind` of `stage` for `microbatch`.
struct Action {
  int stage = 0;
  ActionKind kind = ActionKind::kForward;
  int microbatch = 0;
  /// Member of a compound, with the action before it. A compound is one element of its actor's
  /// list: its members may run interleaved. It begins when all that any member needs exists, and
  /// all results of the members count as made at its end.
  bool joins_previous = false;
  friend bool operator==(const Action&, const Action&) = default;
};

/// Returns true for S, T, IF and IB: every actor runs its shard of the vocabulary. These actions
/// carry the number of one of the actor's stages, by convention the lowest, but do not belong to
/// it.
constexpr bool is_vocabulary_pass(ActionKind kind) {
  return kind == ActionKind::kVocabularyScores || kind == ActionKind::kVocabularyGrads ||
         kind == ActionKind::kInputForward || kind == ActionKind::kInputBackward;
}

/// Returns the letters of a kind: "F", "B", "REDUCE_GRAD".
std::string_view to_string(ActionKind kind);
/// Returns a kind in words: "forward", "input gradient".
std::string_view name_in_words(ActionKind kind);

/// Returns false for REDUCE_GRAD and OPT, which run once per stage and step.
constexpr bool has_microbatch(ActionKind kind) {
  return kind != ActionKind::kReduceGrad && kind != ActionKind::kOptimizer;
}
/// Returns true for B and I, which compute the gradient that the previous stage waits for.
constexpr bool gives_input_grad(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kInputGrad;
}
/// Returns true for B and W, which add to the stage's weight gradient.
constexpr bool gives_weight_grad(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kWeightGrad;
}

/// Prints stage, kind and microbatch as PyTorch's pipelining actions do: "1F3", "0B2",
/// "0REDUCE_GRAD". Compounds are not shown.
std::string to_string(const Action& action);

}  // namespace weft::mesh

template <>
struct weft::last_enumerator<weft::mesh::ActionKind> {
  static constexpr auto kValue = weft::mesh::ActionKind::kOptimizer;
};

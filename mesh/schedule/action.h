#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/codec/codec.h"

namespace weft::mesh {

/// What an actor does at one place of its schedule.
enum class ActionKind : std::uint8_t {
  kForward,     ///< F
  kBackward,    ///< B: input gradient and weight gradient together
  kInputGrad,   ///< I
  kWeightGrad,  ///< W
  kRecompute,   ///< R: the forward once more, for activations that were dropped after F
  /// S: an actor's shard of the output vocabulary, before the exchange of maxima and sums
  /// (Vocabulary Parallelism, arXiv 2411.05288).
  kVocabularyScores,
  kVocabularyGrads,  ///< T: what is left of it after the exchange: the shard's gradients
  kInputForward,   ///< IF: the rows of an actor's shard of the input vocabulary that are asked for
  kInputBackward,  ///< IB: the gradients of these rows
  kReduceGrad,     ///< REDUCE_GRAD: sum a stage's gradients over its replicas; has no microbatch
  kOptimizer,      ///< OPT: the stage's optimizer step; has no microbatch
};

/// The microbatch of actions that belong to the whole step.
inline constexpr int kNoMicrobatch = -1;

/// One entry of a schedule: run `kind` of `stage` for `microbatch`.
struct Action {
  int stage = 0;
  ActionKind kind = ActionKind::kForward;
  int microbatch = 0;
  /// Forms a compound with the action before it: the two may run interleaved, and complete
  /// together. Running them one after the other is always right.
  bool joins_previous = false;
  friend bool operator==(const Action&, const Action&) = default;
};

/// S, T, IF and IB: every actor runs its part of a vocabulary that is split over all of them. They
/// are named by one of the actor's stages, the lowest by custom, but do not belong to it.
constexpr bool is_vocabulary_pass(ActionKind kind) {
  return kind == ActionKind::kVocabularyScores || kind == ActionKind::kVocabularyGrads ||
         kind == ActionKind::kInputForward || kind == ActionKind::kInputBackward;
}

/// The letters of a kind: "F", "B", "REDUCE_GRAD".
std::string_view to_string(ActionKind kind);
/// A kind in words: "forward", "input gradient".
std::string_view words_of(ActionKind kind);

/// REDUCE_GRAD and OPT run once per stage and step.
constexpr bool has_microbatch(ActionKind kind) {
  return kind != ActionKind::kReduceGrad && kind != ActionKind::kOptimizer;
}
/// B and I: they give the gradient that the stage before waits for.
constexpr bool gives_input_grad(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kInputGrad;
}
/// B and W: they add to the stage's weight gradient.
constexpr bool gives_weight_grad(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kWeightGrad;
}

/// "1F3", "0B2", "0REDUCE_GRAD": stage, kind, microbatch; the spelling of PyTorch's pipelining
/// actions. Compounds are not shown.
std::string to_string(const Action& action);

}  // namespace weft::mesh

template <>
struct weft::last_enumerator<weft::mesh::ActionKind> {
  static constexpr auto kValue = weft::mesh::ActionKind::kOptimizer;
};

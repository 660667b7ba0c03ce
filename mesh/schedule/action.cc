#include "mesh/schedule/action.h"

#include <fmt/format.h>

namespace weft::mesh {

std::string_view to_string(ActionKind kind) {
  static constexpr std::string_view kNames[] = {"F", "B",  "I",  "W",           "R",  "S",
                                                "T", "IF", "IB", "REDUCE_GRAD", "OPT"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_in_words(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return "forward";
    case ActionKind::kBackward: return "backward";
    case ActionKind::kInputGrad: return "input gradient";
    case ActionKind::kWeightGrad: return "weight gradient";
    case ActionKind::kRecompute: return "forward again";
    case ActionKind::kVocabularyScores: return "vocabulary scores";
    case ActionKind::kVocabularyGrads: return "vocabulary gradients";
    case ActionKind::kInputForward: return "embedding";
    case ActionKind::kInputBackward: return "embedding gradient";
    case ActionKind::kReduceGrad: return "sum of the gradients";
    case ActionKind::kOptimizer: return "optimizer";
  }
  return "unknown";
}

std::string to_string(const Action& action) {
  if (!has_microbatch(action.kind))
    return fmt::format("{}{}", action.stage, to_string(action.kind));
  return fmt::format("{}{}{}", action.stage, to_string(action.kind), action.microbatch);
}

}  // namespace weft::mesh

#include "mesh/program/internal/parameter_copies.h"

#include <algorithm>
#include <vector>

namespace weft::mesh {

ParameterCopies::ParameterCopies(const MeshPartition& part) : is_copy_(part.locals.size(), false) {
  for (const LocalId id : part.locals.ids()) first_equal_.push_back(id);
  std::vector<const MoveStep*> first_moves;
  for (const Step& step : part.steps) {
    const auto* move = std::get_if<MoveStep>(&step.what);
    if (move == nullptr) continue;
    if (part.locals[move->input].origin != LocalOrigin::kParameter && !is_copy_[move->input])
      continue;
    is_copy_[move->output] = true;
    const auto same = std::ranges::find_if(first_moves, [&](const MoveStep* other) {
      return first_equal_[other->input] == first_equal_[move->input] &&
             other->move.to == move->move.to;
    });
    if (same != first_moves.end()) first_equal_[move->output] = first_equal_[(*same)->output];
    else first_moves.push_back(move);
  }
}

}  // namespace weft::mesh

#pragma once

#include <string>
#include <vector>

#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// Chooses for every mesh axis which factor of the op it splits, if any: only factors that an input
/// is already split along, so nothing is sliced without need. Of the legal choices the one whose
/// inputs take the fewest bytes of communication wins; ties go to more parallelism. `current`: the
/// specs that the inputs have; `op` names the op in messages.
OpSharding choose_sharding(const FactorSignature& signature, const std::vector<TensorType>& inputs,
                           const std::vector<Spec>& current, const DeviceMesh& mesh,
                           const std::string& op);

}  // namespace weft::mesh

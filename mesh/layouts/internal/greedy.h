#pragma once

#include <string>
#include <vector>

#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// Chooses for each mesh axis which factor of the op it splits, if any. Considers only factors that
/// an input is already split along, so that nothing is sliced without need. Of the legal choices,
/// takes the one that moves the fewest bytes of inputs; of equal ones, the one with more
/// parallelism. `current`: specs of the inputs. `op`: name of the op for messages.
OpSharding choose_sharding(const FactorSignature& signature, const std::vector<TensorType>& inputs,
                           const std::vector<Spec>& current, const DeviceMesh& mesh,
                           const std::string& op);

}  // namespace weft::mesh

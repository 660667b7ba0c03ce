#pragma once

#include <string>
#include <vector>

#include "core/ops/op_definition.h"
#include "mesh/sharding/spec.h"

namespace weft::mesh {

/// How one op is spread over a mesh: the specs that its inputs must have and its outputs get.
struct Assignment {
  std::vector<Spec> inputs;
  std::vector<Spec> outputs;
  /// Axes that split a reduction factor: the outputs are partial over them.
  std::vector<int> reduced_axes;
};

/// Chooses for every mesh axis which factor of the op it splits, if any: only factors that an input
/// is already split along, so nothing is sliced without need. Of the legal choices the one whose
/// inputs take the fewest bytes of communication wins; ties go to more parallelism. `op` names the
/// op in messages.
Assignment choose_assignment(const FactorSignature& signature,
                             const std::vector<TensorType>& inputs,
                             const std::vector<Spec>& current, const DeviceMesh& mesh,
                             const std::string& op);

}  // namespace weft::mesh

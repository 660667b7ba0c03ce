#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// Which mesh axes split which logical axis: "batch" -> data, "heads" -> tensor. What is not named
/// is replicated.
struct ShardingRules {
  std::vector<std::pair<std::string, std::vector<std::string>>> axes;
};

/// The layout `rules`, of the section `sharding`. Parameters, inputs and what comes from other
/// meshes are kept as the rules say; each op takes, per mesh axis, of the ways that its factor
/// signature allows and that an input already has, the one that moves the fewest bytes of inputs,
/// and its outputs stay as they come. Throws Error(kInvalidConfig) when a shape does not divide.
ShardingStrategy rules_strategy(const MeshGraph& part, const ShardingRules& rules);

}  // namespace weft::mesh

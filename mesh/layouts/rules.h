#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// Mesh axes that split each logical axis, such as "batch" -> data, "heads" -> tensor. Other
/// logical axes are replicated.
struct ShardingRules {
  std::vector<std::pair<std::string, std::vector<std::string>>> axes;
};

/// Makes the strategy of layout `rules`, by the section `sharding`. Parameters, inputs and received
/// values are kept as the rules say. For each op, every mesh axis takes one of the splits that the
/// op's factor signature allows and an input already has: those that move the fewest bytes of
/// inputs. Outputs stay as ops make them. Throws Error(kInvalidConfig) if a shape does not divide.
ShardingStrategy rules_strategy(const MeshGraph& part, const ShardingRules& rules);

}  // namespace weft::mesh

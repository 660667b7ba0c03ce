#pragma once

#include "apps/models/u_transformer_graph.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// Reads and finishes the `model:` section. Leaves the batch and the classes at their defaults.
UTransformerShape parse_u_transformer(const ConfigNode& node);

}  // namespace weft::apps

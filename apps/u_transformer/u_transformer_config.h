#pragma once

#include "apps/models/u_transformer_graph.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// Reads and finishes the `model:` section; batch and classes are not in it, and stay as they are.
UTransformerShape parse_u_transformer(const ConfigNode& node);

}  // namespace weft::apps

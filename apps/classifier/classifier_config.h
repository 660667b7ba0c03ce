#pragma once

#include "apps/images/image_data_config.h"
#include "apps/models/classifier_graph.h"

namespace weft::apps {

/// Reads and finishes the `model:` section; the sizes of pictures, the classes and the batch are
/// not in it, and stay as they are.
ClassifierShape parse_classifier(const ConfigNode& node);

}  // namespace weft::apps

#pragma once

#include "apps/classification/image_data_config.h"
#include "apps/models/classifier_graph.h"

namespace weft::apps {

/// Reads and finishes the `model:` section. Leaves the picture size, the classes and the batch of
/// the shape at their defaults, as the section does not contain them.
ClassifierShape parse_classifier(const ConfigNode& node);

}  // namespace weft::apps

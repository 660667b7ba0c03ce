#pragma once

#include <string>

#include "mesh/plan/parallel_config.h"

namespace weft::apps {

// Rows of `weft check` and of a run's first screen that describe a layout.

/// Returns text such as "front (data 1 x tensor 2; 2 layers) -> back (data 2 x tensor 1; 2
/// layers)".
std::string stages_text(const mesh::ParallelConfig& layout);

/// Returns text such as "front on worker0, back on worker1".
std::string meshes_text(const mesh::ParallelConfig& layout);

/// Returns text such as "eager-1f1b, 4 microbatches, resharding by weft".
std::string pipeline_text(const mesh::ParallelConfig& layout);

}  // namespace weft::apps

#pragma once

#include <array>
#include <vector>

#include "apps/vector_search/vector_search.h"

namespace weft::apps {

/// Projection of vectors to a plane. A value.
struct PlaneProjection {
  std::vector<std::array<double, 2>> points;  ///< Projected rows.
  /// Share of the variance (0 to 1) along each axis.
  std::array<double, 2> shares = {};
};

/// Projects to the first two principal components, computed by power iteration in one thread. A
/// fixed start vector gives the same picture on every machine. The largest entry of each component
/// is positive, so that pictures are never mirrored. A component without variance gives coordinates
/// 0.
PlaneProjection project_to_plane(VectorRows rows);

}  // namespace weft::apps

#pragma once

#include <array>
#include <vector>

#include "apps/vector_search/vector_search.h"

namespace weft::apps {

/// Vectors as points of a plane. A value.
struct PlaneProjection {
  std::vector<std::array<double, 2>> points;  ///< By row.
  /// Of the sum of squared distances from the mean, each axis's share: 0 to 1.
  std::array<double, 2> shares = {};
};

/// Onto their first two principal components, by power iteration from a fixed start in one thread:
/// the same picture wherever it is drawn. Of each component the largest entry is positive, so that
/// no picture is mirrored. Where vectors do not differ in a second direction, or in any, its
/// coordinates are 0.
PlaneProjection project_to_plane(VectorRows rows);

}  // namespace weft::apps

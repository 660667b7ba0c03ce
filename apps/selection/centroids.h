#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/vector_search/vector_search.h"

namespace weft::apps {

/// Returns the sample size of k-means: 32 points per cell if they fit into 64 MiB, else as many as
/// fit, but at least 8 per cell.
std::uint64_t centroid_sample(std::uint64_t points, std::uint64_t cells, std::size_t dimensions);

/// Runs k-means by cosine on vectors of length 1 (Dhillon and Modha, "Concept decompositions",
/// Machine Learning 2001). Returns `cells` row-major vectors of length 1. Starts with evenly spaced
/// samples; empty cells restart at the samples farthest from all centroids. Needs at least `cells`
/// samples. Depends on its arguments and the rounding of `search` alone. One thread.
std::vector<float> train_centroids(const VectorSearch& search, VectorRows sample,
                                   std::size_t cells);

}  // namespace weft::apps

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/vector_search/vector_search.h"

namespace weft::apps {

/// How many points k-means is shown for so many cells: 32 of each, where they are not longer than
/// 64 MiB together, 8 at least.
std::uint64_t centroid_sample(std::uint64_t points, std::uint64_t cells, std::size_t dimensions);

/// k-means of vectors of length 1 by cosine (Dhillon and Modha, "Concept decompositions", Machine
/// Learning 2001): `cells` vectors of length 1, row by row. It begins with samples at equal
/// distances; cells that nothing is nearest to begin anew with what is far from all. There are as
/// many samples at least. A function of its arguments and of how `search` rounds; one thread.
std::vector<float> train_centroids(const VectorSearch& search, VectorRows sample,
                                   std::size_t cells);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "apps/selection/point_store.h"

namespace weft::apps {

/// Scales row-major vectors of `columns` numbers to length 1. Throws Error(kInvalidArgument), which
/// names `source` and the row (counted from `first_row`), for a number that is not finite or a zero
/// vector.
void normalise_vectors(std::span<float> values, std::size_t columns, std::string_view source,
                       std::uint64_t first_row = 0);

/// Returns the cosine of two vectors of length 1, at least 0, as a fraction of 65535. Symmetric,
/// bit by bit.
std::uint16_t cosine_of(std::span<const float> a, std::span<const float> b);

/// Keeps the `count` most similar neighbours (among equal ones those of smaller id), in any order.
void keep_most_similar(std::vector<Neighbour>& neighbours, std::size_t count);

/// Neighbours of each point by ascending id.
using NeighbourLists = std::vector<std::vector<Neighbour>>;

/// Keeps an edge if either side lists it (Böther et al., section 3). `lists` are of consecutive
/// points from `first` on, whose neighbours are among them. Similarities must be symmetric.
void make_symmetric(NeighbourLists& lists, PointId first = 0);

}  // namespace weft::apps

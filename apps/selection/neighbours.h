#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "apps/selection/point_store.h"

namespace weft::apps {

/// Brings vectors, rows of `columns` numbers, to length 1. Throws Error(kInvalidArgument), which
/// names `source` and the row, counted from `first_row`, for a number that is none or infinite, and
/// for a vector of zeros.
void normalise_vectors(std::span<float> values, std::size_t columns, std::string_view source,
                       std::uint64_t first_row = 0);

/// Of two vectors of length 1: their cosine, at least 0, as a fraction of 65535. The same from
/// either side, to the bit.
std::uint16_t cosine_of(std::span<const float> a, std::span<const float> b);

/// Leaves the `count` most similar, of equal ones those of smaller ids, in any order.
void keep_most_similar(std::vector<Neighbour>& neighbours, std::size_t count);

/// By point: its neighbours by ascending id.
using NeighbourLists = std::vector<std::vector<Neighbour>>;

/// Keeps an edge where either side lists it (Böther et al., section 3). `lists`: of the points from
/// `first` on, which have only each other; similarities are the same from either side.
void symmetrise(NeighbourLists& lists, PointId first = 0);

}  // namespace weft::apps

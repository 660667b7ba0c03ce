#include "apps/selection/neighbours.h"

#include <algorithm>
#include <cmath>

#include "apps/vector_search/vector_search.h"
#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::apps {

void normalise_vectors(std::span<float> values, std::size_t columns, std::string_view source,
                       std::uint64_t first_row) {
  WEFT_CHECK(columns > 0 && values.size() % columns == 0, "{} values in rows of {}", values.size(),
             columns);
  for (std::size_t row = 0; row < values.size() / columns; ++row) {
    const std::span<float> vector = values.subspan(row * columns, columns);
    double square = 0;
    for (std::size_t i = 0; i < columns; ++i) {
      if (!std::isfinite(vector[i]))
        throw_error(ErrorCode::kInvalidArgument,
                    "{}, row {}: number {} is {}; leave the row out, or give it a vector", source,
                    first_row + row, i, std::isnan(vector[i]) ? "no number (NaN)" : "infinite");
      square += static_cast<double>(vector[i]) * vector[i];
    }
    if (square <= 0)
      throw_error(
          ErrorCode::kInvalidArgument,
          "{}, row {}: the vector is zero, so it has no similarity to others; remove the row",
          source, first_row + row);
    const double scale = 1 / std::sqrt(square);
    for (float& value : vector) value = static_cast<float>(value * scale);
  }
}

std::uint16_t cosine_of(std::span<const float> a, std::span<const float> b) {
  return fraction_of(std::clamp(inner_product(a, b), 0.0F, 1.0F));
}

void keep_most_similar(std::vector<Neighbour>& neighbours, std::size_t count) {
  if (neighbours.size() <= count) return;
  const auto nearer = [](const Neighbour& a, const Neighbour& b) {
    return a.similarity != b.similarity ? a.similarity > b.similarity : a.id < b.id;
  };
  std::ranges::nth_element(neighbours, neighbours.begin() + static_cast<std::ptrdiff_t>(count),
                           nearer);
  neighbours.resize(count);
}

void make_symmetric(NeighbourLists& lists, PointId first) {
  std::vector<std::size_t> own;
  for (const auto& list : lists) own.push_back(list.size());
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (std::size_t k = 0; k < own[i]; ++k) {
      const Neighbour neighbour = lists[i][k];
      lists.at(neighbour.id - first)
          .push_back({static_cast<PointId>(first + i), neighbour.similarity});
    }
  }
  for (std::vector<Neighbour>& list : lists) {
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
}

}  // namespace weft::apps

#include "apps/select/projection.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

#include "apps/selection/point.h"

namespace weft::apps {
namespace {

constexpr int kMostIterations = 200;
/// Squared change of a direction at which iteration stops, far below what a picture shows.
constexpr double kConverged = 1e-10;
/// Share of the variance below which a direction is rounding noise.
constexpr double kLeastShare = 1e-9;

using Direction = std::vector<double>;

double product(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Removes the part along `other`, normalises the direction to length 1, and returns the length
/// before normalisation.
double orthonormalise(Direction& direction, std::span<const double> other) {
  if (!other.empty()) {
    const double along = product(direction, other);
    for (std::size_t d = 0; d < direction.size(); ++d) direction[d] -= along * other[d];
  }
  const double length = std::sqrt(product(direction, direction));
  if (length > 0)
    for (double& value : direction) value /= length;
  return length;
}

/// Rows minus their mean.
struct Centred {
  std::vector<double> values;
  std::size_t dimensions;

  std::span<const double> row(std::size_t r) const {
    return std::span(values).subspan(r * dimensions, dimensions);
  }
  std::size_t size() const { return values.size() / dimensions; }
};

Centred centred(VectorRows rows) {
  Centred result{{rows.values.begin(), rows.values.end()}, rows.dimensions};
  Direction mean(rows.dimensions, 0.0);
  for (std::size_t i = 0; i < result.values.size(); ++i)
    mean[i % rows.dimensions] += result.values[i] / static_cast<double>(rows.size());
  for (std::size_t i = 0; i < result.values.size(); ++i)
    result.values[i] -= mean[i % rows.dimensions];
  return result;
}

/// Returns the direction of largest variance orthogonal to `other`, which may be empty. Empty if
/// there is no variance.
Direction component(const Centred& rows, std::span<const double> other, double total) {
  // Any start that is not orthogonal to the result works; a hash is as good as random.
  Direction direction(rows.dimensions);
  for (std::size_t d = 0; d < rows.dimensions; ++d)
    direction[d] = static_cast<double>(point_hash(d, 0, 0) >> 11) * 0x1p-53 - 0.5;
  orthonormalise(direction, other);
  for (int i = 0; i < kMostIterations; ++i) {
    Direction next(rows.dimensions, 0.0);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::span<const double> row = rows.row(r);
      const double along = product(row, direction);
      for (std::size_t d = 0; d < rows.dimensions; ++d) next[d] += along * row[d];
    }
    if (orthonormalise(next, other) <= kLeastShare * total) return {};
    double change = 0;
    for (std::size_t d = 0; d < rows.dimensions; ++d)
      change += (next[d] - direction[d]) * (next[d] - direction[d]);
    direction = std::move(next);
    if (change < kConverged) break;
  }
  const double largest = *std::ranges::max_element(
      direction, [](double a, double b) { return std::abs(a) < std::abs(b); });
  if (largest < 0)
    for (double& value : direction) value = -value;
  return direction;
}

}  // namespace

PlaneProjection project_to_plane(VectorRows rows) {
  PlaneProjection result;
  result.points.resize(rows.size());
  if (rows.size() == 0) return result;
  const Centred values = centred(rows);
  const double total = product(values.values, values.values);
  Direction before;
  for (std::size_t axis = 0; axis < 2 && total > 0; ++axis) {
    const Direction direction = component(values, before, total);
    if (direction.empty()) break;
    double sum = 0;
    for (std::size_t r = 0; r < values.size(); ++r) {
      const double along = product(values.row(r), direction);
      result.points[r][axis] = along;
      sum += along * along;
    }
    result.shares[axis] = sum / total;
    before = direction;
  }
  return result;
}

}  // namespace weft::apps

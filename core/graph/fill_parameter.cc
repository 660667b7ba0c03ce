#include "core/graph/fill_parameter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/base/philox.h"

namespace weft {
namespace {

/// Returns four standard normal numbers computed from four random words (Box and Muller).
std::array<double, 4> normals(const std::array<std::uint32_t, 4>& words) {
  std::array<double, 4> result{};
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double u = (words[2 * pair] + 0.5) * 0x1p-32;
    const double angle = 2 * std::numbers::pi * (words[2 * pair + 1] * 0x1p-32);
    const double radius = std::sqrt(-2 * std::log(u));
    result[2 * pair] = radius * std::cos(angle);
    result[2 * pair + 1] = radius * std::sin(angle);
  }
  return result;
}

/// Sets values[i] = deviation * normal number of element first + i.
void fill_normal_run(std::uint64_t key, std::uint64_t stream, std::uint64_t first, double deviation,
                     std::span<float> values) {
  std::array<double, 4> four{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t index = first + i;
    if (i == 0 || index % 4 == 0) four = normals(philox(key, index / 4, stream));
    values[i] = static_cast<float>(deviation * four[index % 4]);
  }
}

/// Fills a region that extends beyond the shape.
void fill_padded(std::string_view name, const Shape& shape, const Region& region,
                 const Initializer& initializer, std::uint64_t seed, std::span<float> values) {
  std::ranges::fill(values, 0.0F);
  const auto inside = region.intersect(Region::whole(shape));
  if (!inside) return;
  std::vector<float> filled(inside->num_elements());
  fill_parameter(name, shape, *inside, initializer, seed, filled);
  copy_region(*inside, sizeof(float), *inside, std::as_bytes(std::span(filled)), region,
              std::as_writable_bytes(values));
}

}  // namespace

void fill_parameter(std::string_view name, const Shape& shape, const Region& region,
                    const Initializer& initializer, std::uint64_t seed, std::span<float> values) {
  if (region.rank() != shape.size() || region.num_elements() != std::ssize(values)) {
    throw_error(ErrorCode::kInvalidArgument, "cannot fill region {} of '{}' {} into {} values",
                to_string(region), name, to_string(shape), values.size());
  }
  if (!Region::whole(shape).contains(region))
    return fill_padded(name, shape, region, initializer, seed, values);
  if (initializer.kind != Initializer::Kind::kNormal) {
    std::fill(values.begin(), values.end(),
              initializer.kind == Initializer::Kind::kOnes ? 1.0f : 0.0f);
    return;
  }
  // Iterates over the rows of the region, that is runs of the last dimension.
  const std::uint64_t stream = fnv1a(name.data(), name.size());
  const std::size_t rank = shape.size();
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  const std::size_t run = rank == 0 ? 1 : static_cast<std::size_t>(region[rank - 1].size());
  std::vector<std::int64_t> index;
  for (std::size_t d = 0; d < rank; ++d) index.push_back(region[d].begin);
  for (std::size_t done = 0; done < values.size(); done += run) {
    std::int64_t first = 0;
    for (std::size_t d = 0; d < rank; ++d) first += index[d] * strides[d];
    fill_normal_run(seed, stream, first, initializer.standard_deviation, values.subspan(done, run));
    for (std::size_t d = rank - std::min<std::size_t>(rank, 1); d-- > 0;) {
      if (++index[d] < region[d].end) break;
      index[d] = region[d].begin;
    }
  }
}

}  // namespace weft

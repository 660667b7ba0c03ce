#include "core/graph/fill_parameter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <numbers>
#include <thread>
#include <vector>

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

/// Returns the index in the whole tensor of element `number` of a region, both row-major.
std::int64_t index_in_whole(const Region& region, const std::vector<std::int64_t>& strides,
                            std::int64_t number) {
  std::int64_t index = 0;
  for (std::size_t d = region.rank(); d-- > 0;) {
    const std::int64_t size = region[d].size();
    index += (region[d].begin + number % size) * strides[d];
    number /= size;
  }
  return index;
}

/// Splits [0, size) into chunks of kFillChunk. Calls work(begin, end) for each chunk, on up to
/// `threads` threads, the caller's included. Threads take chunks as they become free.
void for_each_chunk(std::size_t size, unsigned threads,
                    const std::function<void(std::size_t, std::size_t)>& work) {
  const std::size_t chunks = (size + kFillChunk - 1) / kFillChunk;
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t chunk = next++; chunk < chunks; chunk = next++)
      work(chunk * kFillChunk, std::min(size, (chunk + 1) * kFillChunk));
  };
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < std::min<std::size_t>(threads, chunks); ++i)
    helpers.emplace_back(run);
  run();
}

/// Fills a region that extends beyond the shape.
void fill_padded(std::string_view name, const Shape& shape, const Region& region,
                 const Initializer& initializer, std::uint64_t seed, std::span<float> values,
                 unsigned threads) {
  std::ranges::fill(values, 0.0F);
  const auto inside = region.intersect(Region::whole(shape));
  if (!inside) return;
  std::vector<float> filled(inside->num_elements());
  fill_parameter(name, shape, *inside, initializer, seed, filled, threads);
  copy_region(*inside, sizeof(float), *inside, std::as_bytes(std::span(filled)), region,
              std::as_writable_bytes(values));
}

}  // namespace

void fill_parameter(std::string_view name, const Shape& shape, const Region& region,
                    const Initializer& initializer, std::uint64_t seed, std::span<float> values,
                    unsigned threads) {
  if (region.rank() != shape.size() || region.num_elements() != std::ssize(values)) {
    throw_error(ErrorCode::kInvalidArgument, "cannot fill region {} of '{}' {} into {} values",
                to_string(region), name, to_string(shape), values.size());
  }
  if (!Region::whole(shape).contains(region))
    return fill_padded(name, shape, region, initializer, seed, values, threads);
  if (initializer.kind != Initializer::Kind::kNormal) {
    std::fill(values.begin(), values.end(),
              initializer.kind == Initializer::Kind::kOnes ? 1.0f : 0.0f);
    return;
  }
  const std::uint64_t stream = fnv1a(name.data(), name.size());
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  // Length of the runs in which elements of the region are neighbours in the whole tensor.
  const std::size_t run =
      shape.empty() ? 1 : static_cast<std::size_t>(region[shape.size() - 1].size());
  for_each_chunk(values.size(), threads, [&](std::size_t begin, std::size_t end) {
    while (begin < end) {
      const std::size_t count = std::min(run - begin % run, end - begin);
      fill_normal_run(seed, stream, index_in_whole(region, strides, begin),
                      initializer.standard_deviation, values.subspan(begin, count));
      begin += count;
    }
  });
}

}  // namespace weft

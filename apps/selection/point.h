#pragma once

#include <cmath>
#include <cstdint>

namespace weft::apps {

/// A point of the ground set, numbered from 0 in the order in which the input has them.
using PointId = std::uint32_t;

/// A number that looks random and depends on its three arguments alone (the finaliser of
/// SplitMix64; Steele et al., OOPSLA 2014): it breaks ties, puts points into partitions and samples
/// edges, equally on every machine and for any number of workers. Not for secrets.
constexpr std::uint64_t point_hash(std::uint64_t point, std::uint64_t seed, std::uint64_t purpose) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  return mix(mix(mix(seed + 0x9e3779b97f4a7c15) + purpose) + point);
}

/// A number below `bound`, drawn by such a hash.
constexpr std::uint32_t draw_below(std::uint32_t bound, std::uint64_t hash) {
  return (hash >> 32) * bound >> 32;
}

/// By which points are drawn at random: those with the largest. Purposes count up from 0, this is
/// none of those.
inline std::int64_t draw_of(PointId point, std::uint64_t seed) {
  return static_cast<std::int64_t>(point_hash(point, seed, ~std::uint64_t{0}));
}

/// A share as 16 bits can hold it: of 65535. `share`: 0 to 1.
inline std::uint16_t fraction_of(double share) { return std::lround(share * 65535); }

/// The order in which points are chosen: the larger gain first, then the smaller hash, then the
/// smaller id. Ids alone would pick the beginning of the input wherever utilities are flat.
struct PointRank {
  std::int64_t gain = 0;
  std::uint64_t tie = 0;
  PointId id = 0;

  PointRank() = default;
  PointRank(std::int64_t gain_of_point, PointId point, std::uint64_t seed)
      : gain(gain_of_point), tie(point_hash(point, seed, 0)), id(point) {}

  bool comes_before(const PointRank& other) const {
    if (gain != other.gain) return gain > other.gain;
    return tie != other.tie ? tie < other.tie : id < other.id;
  }
};

}  // namespace weft::apps

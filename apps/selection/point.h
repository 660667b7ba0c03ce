#pragma once

#include <cmath>
#include <cstdint>

namespace weft::apps {

/// Number of a point of the ground set, from 0 in the order of the input.
using PointId = std::uint32_t;

/// Returns a pseudo-random number that depends on its arguments alone (finaliser of SplitMix64;
/// Steele et al., OOPSLA 2014). `key` is a hash_key(). It breaks ties, assigns partitions and
/// samples edges alike on every machine and for any number of workers. Not cryptographic.
constexpr std::uint64_t point_hash(std::uint64_t point, std::uint64_t key) {
  std::uint64_t x = key + point;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Returns the key of point_hash() for a seed and a purpose.
constexpr std::uint64_t hash_key(std::uint64_t seed, std::uint64_t purpose) {
  return point_hash(purpose, point_hash(0x9e3779b97f4a7c15, seed));
}

constexpr std::uint64_t point_hash(std::uint64_t point, std::uint64_t seed, std::uint64_t purpose) {
  return point_hash(point, hash_key(seed, purpose));
}

/// Returns a number below `bound`, drawn by a hash.
constexpr std::uint32_t draw_below(std::uint32_t bound, std::uint64_t hash) {
  return (hash >> 32) * bound >> 32;
}

/// Returns a point's random number for samples, which take the points of largest (or smallest)
/// numbers. Its purpose differs from the others, which count up from 0.
inline std::int64_t sample_key(PointId point, std::uint64_t seed) {
  return static_cast<std::int64_t>(point_hash(point, seed, ~std::uint64_t{0}));
}

/// Converts a share from 0 to 1 to a fraction of 65535.
inline std::uint16_t fraction_of(double share) { return std::lround(share * 65535); }

/// Order in which points are chosen: larger gain, then smaller hash, then smaller id. Ids alone
/// would prefer the beginning of the input where utilities are equal.
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

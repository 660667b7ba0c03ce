#include "apps/select_input/hashed_ngrams.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "apps/selection/point.h"
#include "core/base/philox.h"

namespace weft::apps {
namespace {

constexpr int kBucketBits = std::bit_width(HashedNgrams::kBuckets) - 1;
constexpr double kUnitsOfWeight = 0x1p20;  // idfs are rounded to multiples of its inverse
constexpr std::uint64_t kSigns = 1, kBucket = 2, kNothing = 3;  // purposes of hashes

bool is_letter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}
char in_small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::uint32_t bucket_of(std::uint64_t word, std::uint64_t before) {
  return point_hash(word, before, kBucket) >> (64 - kBucketBits);
}

/// Calls `visit(bucket, number of occurrences)` for each distinct bucket.
template <typename Visit>
void each_bucket(std::span<const std::uint32_t> buckets, const Visit& visit) {
  for (std::size_t i = 0; i < buckets.size();) {
    const std::size_t begin = i;
    while (i < buckets.size() && buckets[i] == buckets[begin]) ++i;
    visit(buckets[begin], static_cast<std::int64_t>(i - begin));
  }
}

}  // namespace

std::vector<std::uint32_t> ngram_buckets(std::string_view text) {
  std::vector<std::uint32_t> buckets;
  std::uint64_t before = 0;  // hash of the previous word, 0 for none
  for (std::size_t i = 0; i < text.size();) {
    if (!is_letter(text[i])) {
      ++i;
      continue;
    }
    std::uint64_t word = fnv1a("", 0);
    for (; i < text.size() && is_letter(text[i]); ++i) {
      const char letter = in_small(text[i]);
      word = fnv1a(&letter, 1, word);
    }
    buckets.insert(buckets.end(), 2, bucket_of(word, 0));
    if (before != 0) buckets.push_back(bucket_of(word, before));
    before = word;
  }
  std::ranges::sort(buckets);
  return buckets;
}

void HashedNgrams::count(std::string_view text) {
  each_bucket(ngram_buckets(text),
              [this](std::uint32_t bucket, std::int64_t) { ++texts_of_[bucket]; });
  ++texts_;
}

std::vector<float> HashedNgrams::vector_of(std::string_view text) const {
  std::vector<std::int64_t> sums(width_);
  each_bucket(ngram_buckets(text), [&](std::uint32_t bucket, std::int64_t times) {
    const double idf = std::log((1.0 + texts_) / std::max(1U, texts_of_[bucket]));
    const std::int64_t weight = times * std::llround(idf * kUnitsOfWeight);
    for (std::size_t first = 0; first < width_; first += kSignsPerHash) {
      const std::uint64_t signs = point_hash(bucket, seed_ + first, kSigns);
      for (std::size_t d = 0; d < kSignsPerHash; ++d)
        sums[first + d] += (signs >> d & 1) != 0 ? weight : -weight;
    }
  });
  std::vector<float> vector(width_);
  double square = 0;
  for (const std::int64_t sum : sums) square += static_cast<double>(sum) * sum;
  if (square == 0) {
    fill_with_signs(vector, point_hash(0, seed_, kNothing));
    return vector;
  }
  const double length = std::sqrt(square);
  for (std::size_t d = 0; d < width_; ++d) vector[d] = static_cast<float>(sums[d] / length);
  return vector;
}

std::vector<TextPart> parts_of_text(std::string_view text, int words) {
  std::vector<TextPart> parts;
  int in_last = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (is_space(text[i])) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < text.size() && !is_space(text[i])) ++i;
    if (parts.empty() || in_last == words) {
      parts.push_back({.offset = begin});
      in_last = 0;
    }
    ++in_last;
    parts.back().length = i - parts.back().offset;
  }
  if (parts.size() > 1 && 2 * in_last < words) {
    const TextPart last = parts.back();
    parts.pop_back();
    parts.back().length = last.offset + last.length - parts.back().offset;
  }
  return parts;
}

void fill_with_signs(std::span<float> vector, std::uint64_t hash) {
  const auto size = static_cast<float>(1 / std::sqrt(static_cast<double>(vector.size())));
  for (std::size_t d = 0; d < vector.size(); ++d)
    vector[d] = (point_hash(d, hash, kSigns) >> 63) != 0 ? size : -size;
}

}  // namespace weft::apps

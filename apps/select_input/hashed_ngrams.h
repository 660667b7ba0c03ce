#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::apps {

/// Vectors of texts without a model: words and pairs of adjacent words, hashed into buckets
/// (Weinberger et al., ICML 2009), weighted by tf-idf and projected to `width` numbers by random
/// signs (Achlioptas, JCSS 2003). Texts with the same words are similar. Texts without a common
/// word have similarities of about 0 +- 1 / sqrt(width): among 60,000 texts, the largest of these
/// is 0.53 at width 64 and 0.37 at width 128.
///
/// Needs two passes: pass each text to count(), then call vector_of(). Sums are of integers, so
/// that the same texts give the same bits on every machine and in any order. Not thread-safe,
/// except vector_of().
class HashedNgrams final {
 public:
  static constexpr std::size_t kBuckets = std::size_t{1} << 18;
  static constexpr std::size_t kSignsPerHash = 64;  ///< Every width is a multiple of it.

  HashedNgrams(std::uint64_t seed, std::size_t width)
      : seed_(seed), width_(width), texts_of_(kBuckets) {}

  void count(std::string_view text);
  std::uint64_t num_counted() const { return texts_; }
  /// Returns a vector of length 1. Texts without words get a common vector, unlike all others.
  std::vector<float> vector_of(std::string_view text) const;

 private:
  const std::uint64_t seed_;
  const std::size_t width_;
  std::vector<std::uint32_t> texts_of_;  ///< Number of texts that contain each bucket.
  std::uint64_t texts_ = 0;
};

/// Returns the buckets of a text's words and pairs of words in ascending order, repeated as often
/// as they occur. Each word counts twice, so that rarer pairs do not outweigh words. A word is a
/// run of letters and digits in lower case. Non-ASCII bytes count as letters. "Cats, cats" gives
/// the bucket of "cats" four times and that of "cats cats" once.
std::vector<std::uint32_t> ngram_buckets(std::string_view text);

/// Part of a text, in bytes.
struct TextPart {
  std::size_t offset = 0, length = 0;
  friend bool operator==(const TextPart&, const TextPart&) = default;
};

/// Splits a text into parts of `words` words, which whitespace separates. The last part has at
/// least half as many and at most one and a half times as many, unless the text is shorter. Empty
/// if the text has no words.
std::vector<TextPart> parts_of_text(std::string_view text, int words);

/// Fills a vector of length 1 with signs drawn from a hash, to represent a row without a vector.
/// Vectors of different hashes are nearly orthogonal.
void fill_with_signs(std::span<float> vector, std::uint64_t hash);

}  // namespace weft::apps

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::apps {

/// Vectors of texts without a model: words and pairs of neighbouring words, hashed into buckets
/// (Weinberger et al., ICML 2009), weighted by tf-idf, and brought to `width` numbers by random
/// signs (Achlioptas, JCSS 2003). Two texts of the same words are near each other. Those that have
/// nothing in common have similarities of 0, give or take 1 / sqrt(width): among 60,000 texts the
/// nearest stranger has 0.53 at 64 numbers, 0.37 at 128.
///
/// Reads all texts twice: first each goes to count(), then vector_of() may be asked. Sums are of
/// whole numbers, so that the same texts give the same bits everywhere, whoever computes which. One
/// thread at a time; vector_of() any thread.
class HashedNgrams final {
 public:
  static constexpr std::size_t kBuckets = std::size_t{1} << 18;
  static constexpr std::size_t kSignsAtOnce = 64;  ///< Divides a width.

  HashedNgrams(std::uint64_t seed, std::size_t width)
      : seed_(seed), width_(width), texts_of_(kBuckets) {}

  void count(std::string_view text);
  std::uint64_t num_counted() const { return texts_; }
  /// Of length 1. A text without a word has that of a term of its own: it is near its like alone.
  std::vector<float> vector_of(std::string_view text) const;

 private:
  const std::uint64_t seed_;
  const std::size_t width_;
  std::vector<std::uint32_t> texts_of_;  ///< By bucket: how many have it.
  std::uint64_t texts_ = 0;
};

/// The buckets of a text's words and pairs of words, ascending, as often as they occur. A word
/// counts twice, so that pairs, which are rarer, do not outweigh words. It is a run of letters and
/// digits, in small letters; what is not ASCII is a letter. "Cats, cats" has one bucket four times,
/// and that of "cats cats".
std::vector<std::uint32_t> ngram_buckets(std::string_view text);

/// A part of a text, in bytes.
struct TextPart {
  std::size_t offset = 0, length = 0;
  friend bool operator==(const TextPart&, const TextPart&) = default;
};

/// The parts of `words` words each (what spaces part) that a text consists of; the last one has
/// half as many at least, and up to half as many more, unless the text has fewer. None without
/// words.
std::vector<TextPart> parts_of_text(std::string_view text, int words);

/// A vector of length 1 with the signs of a hash: what stands for something that has no vector.
/// Vectors of other hashes are nearly at right angles to it.
void fill_with_signs(std::span<float> vector, std::uint64_t hash);

}  // namespace weft::apps

#include "apps/select_input/hashed_ngrams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "apps/select_input/pixel_projection.h"

namespace weft::apps {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST(NgramBuckets, AreOfWordsAndPairsInSmallLetters) {
  EXPECT_THAT(ngram_buckets(" .,-\n"), IsEmpty());
  EXPECT_EQ(ngram_buckets("Cats, cats"), ngram_buckets("cats\nCATS."));
  const std::vector<std::uint32_t> buckets = ngram_buckets("cats cats");
  EXPECT_EQ(buckets.size(), 5U);
  EXPECT_EQ(std::ranges::count(buckets, ngram_buckets("cats").front()), 4);
  EXPECT_NE(ngram_buckets("a b"), ngram_buckets("b a"));
  EXPECT_EQ(ngram_buckets("\xc3\xa4x").size(), 2U);
}

TEST(HashedNgrams, LikeTextsAreNearAndWordsThatAllHaveSayLittle) {
  HashedNgrams ngrams(1, 64);
  const std::string a = "the quick brown fox jumps over the lazy dog near a river",
                    b = "the quick brown fox jumps over the lazy cat near a river",
                    c = "the theorem of the mean holds where the function is smooth";
  for (const std::string& text : {a, b, c}) ngrams.count(text);
  for (int i = 0; i < 97; ++i) ngrams.count("the text number " + std::to_string(i));
  const std::vector<float> vector = ngrams.vector_of(a);
  EXPECT_EQ(vector.size(), 64U);
  EXPECT_NEAR(dot(vector, vector), 1, 1e-6);
  EXPECT_GT(dot(vector, ngrams.vector_of(b)), 0.6);
  EXPECT_LT(std::abs(dot(vector, ngrams.vector_of(c))), 0.4);

  // The vectors depend on the seed, but not on the order of counting or of the queries.
  HashedNgrams again(1, 64), other(2, 64);
  for (int i = 96; i >= 0; --i) again.count("the text number " + std::to_string(i));
  for (const std::string& text : {c, b, a}) {
    again.count(text);
    other.count(text);
  }
  EXPECT_EQ(again.vector_of(a), vector);
  EXPECT_NE(other.vector_of(a), vector);
}

TEST(HashedNgrams, StrangersAreFartherInMoreNumbers) {
  const auto squares = [](std::size_t width) {
    HashedNgrams ngrams(1, width);
    std::vector<std::string> texts;
    for (int i = 0; i < 60; ++i) {
      texts.emplace_back();
      for (int word = 0; word < 20; ++word) texts.back() += std::to_string(100 * i + word) + " ";
      ngrams.count(texts.back());
    }
    double sum = 0;
    for (int i = 0; i + 1 < 60; ++i) {
      const double similarity = dot(ngrams.vector_of(texts[i]), ngrams.vector_of(texts[i + 1]));
      sum += similarity * similarity;
    }
    return sum / 59;
  };
  // Expected: 1 / width, with a standard error of about 20 %.
  EXPECT_NEAR(squares(64) * 64, 1, 0.5);
  EXPECT_NEAR(squares(256) * 256, 1, 0.5);
}

TEST(HashedNgrams, TextsWithoutWordsAreNearEachOtherAlone) {
  HashedNgrams ngrams(1, 64);
  for (const char* text : {"", "=====", "words are here"}) ngrams.count(text);
  EXPECT_EQ(ngrams.vector_of(""), ngrams.vector_of("====="));
  EXPECT_NEAR(dot(ngrams.vector_of(""), ngrams.vector_of("...")), 1, 1e-6);
  EXPECT_LT(std::abs(dot(ngrams.vector_of(""), ngrams.vector_of("words are here"))), 0.5);
}

TEST(PartsOfText, HaveEquallyManyWordsAndNoSmallRest) {
  EXPECT_THAT(parts_of_text(" \n ", 2), IsEmpty());
  EXPECT_THAT(parts_of_text(" one", 2), ElementsAre(TextPart{1, 3}));
  EXPECT_THAT(parts_of_text("a bb  c dd e", 2),
              ElementsAre(TextPart{0, 4}, TextPart{6, 4}, TextPart{11, 1}));
  // A last part of one word, with four words per part, is merged into the part before.
  EXPECT_THAT(parts_of_text("a b c d e", 4), ElementsAre(TextPart{0, 9}));
}

TEST(PixelProjection, KeepsDistancesAndTakesFewPixelsAsTheyAre) {
  const PixelProjection few(3, 1);
  EXPECT_EQ(few.width(), 3U);
  std::vector<float> three(3);
  few.project(std::vector<std::uint8_t>{9, 0, 255}, three);
  EXPECT_THAT(three, ElementsAre(9, 0, 255));

  const PixelProjection many(784, 1);
  std::vector<std::uint8_t> black(784), one(784), two(784);
  for (std::size_t i = 0; i < 784; ++i) {
    one[i] = i * 37 % 256;
    two[i] = i % 7 == 0 ? one[i] : i * 101 % 256;
  }
  const auto projected = [&](const std::vector<std::uint8_t>& picture) {
    std::vector<float> numbers(many.width());
    many.project(picture, numbers);
    return numbers;
  };
  EXPECT_EQ(projected(black), std::vector<float>(64));
  const auto cosine = [](const auto& a, const auto& b) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      ab += 1.0 * a[i] * b[i];
      aa += 1.0 * a[i] * a[i];
      bb += 1.0 * b[i] * b[i];
    }
    return ab / std::sqrt(aa * bb);
  };
  EXPECT_NEAR(cosine(projected(one), projected(two)), cosine(one, two), 0.2);
}

}  // namespace
}  // namespace weft::apps

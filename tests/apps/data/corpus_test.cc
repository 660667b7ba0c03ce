#include "apps/data/corpus.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

TEST(CleanVerses, DropsReferencesAndPutsABlankLineBetweenChapters) {
  EXPECT_EQ(
      clean_verses("Ge1:1 In the beginning.\nGe1:2 And: the 3:4 earth.\nGe2:1 Thus.\n1Sm1:1 Now\n"),
      "In the beginning.\nAnd: the 3:4 earth.\n\nThus.\n\nNow\n");
  EXPECT_EQ(clean_verses(""), "");
  EXPECT_EQ(clean_verses("\n\nno reference here\nGe1:1 Yes"), "Yes\n");
}

TEST(KjvText, IsTheWholeTextWithoutReferences) {
  std::string text;
  try {
    text = kjv_text();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("apt-get install bible-kjv bible-kjv-text"), std::string::npos);
    GTEST_SKIP() << error.message();
  }
  EXPECT_EQ(text.substr(0, 57), "In the beginning God created the heaven and the earth.\nAn");
  EXPECT_TRUE(text.ends_with("The grace of our Lord Jesus Christ be with you all. Amen.\n"));
  EXPECT_EQ(text.find("Ge1:"), std::string::npos);
}

TEST(SplitText, NothingIsLostOrSharedAndTheFractionIsNear) {
  std::string text;
  for (int line = 0; line < 1000; ++line) text += "line " + std::to_string(line) + "\n";
  const TextSplit split = split_text(text, 0.1, 8);
  EXPECT_EQ(split.train.size() + split.validation.size(), text.size());
  EXPECT_NEAR(static_cast<double>(split.validation.size()) / static_cast<double>(text.size()), 0.1,
              0.01);
  int jumps = 0;
  int last = -1;
  for (std::size_t at = 0; at < split.validation.size();) {
    const std::size_t end = split.validation.find('\n', at);
    const std::string line = split.validation.substr(at, end - at);
    ASSERT_TRUE(line.starts_with("line ")) << line;
    EXPECT_EQ(split.train.find("\n" + line + "\n"), std::string::npos);
    const int number = std::stoi(line.substr(5));
    jumps += number != last + 1;
    last = number;
    at = end + 1;
  }
  EXPECT_EQ(jumps, 8);
}

TEST(SplitText, ATextOfOneLineIsCutAtSpacesAndAWordOfOneFileBetweenCharacters) {
  std::string words;
  for (int word = 0; word < 4000; ++word) words += "w" + std::to_string(word) + " ";
  const TextSplit by_words = split_text(words, 0.1, 4);
  EXPECT_NEAR(static_cast<double>(by_words.validation.size()), 0.1 * words.size(), 40);
  EXPECT_EQ(by_words.train.size() + by_words.validation.size(), words.size());
  EXPECT_TRUE(by_words.validation.starts_with("w"));
  EXPECT_TRUE(by_words.validation.ends_with(" "));

  std::string word;
  for (int i = 0; i < 1000; ++i) word += "\xc3\xa4";  // U+00E4, two bytes that are never split
  const TextSplit by_characters = split_text(word, 0.2, 4);
  EXPECT_NEAR(static_cast<double>(by_characters.validation.size()), 400, 8);
  EXPECT_EQ(by_characters.train.size() % 2, 0u);
  EXPECT_TRUE(by_characters.validation.starts_with("\xc3\xa4"));
}

TEST(SplitText, LinesOfTwoHalvesAreNotHeldOutWhole) {
  const std::string half = [] {
    std::string line;
    for (int word = 0; word < 2000; ++word) line += "some words ";
    return line + "\n";
  }();
  const TextSplit split = split_text(half + half, 0.05, 16);
  EXPECT_NEAR(static_cast<double>(split.validation.size()), 0.05 * 2 * half.size(), 200);
}

TEST(SplitText, SillyFractionsAreRefused) {
  EXPECT_THAT(
      [&] { split_text("abc", 1.0, 1); },
      test::throws_error(ErrorCode::kInvalidArgument, "cannot hold out a fraction 1 of a text"));
  EXPECT_THAT([&] { split_text("abc", 0.5, 0); },
              test::throws_error(ErrorCode::kInvalidArgument, "of a text in 0 blocks"));
}

}  // namespace
}  // namespace weft::apps

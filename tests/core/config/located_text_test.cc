#include "core/config/located_text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(LocatedText, PartsKnowWhereTheyStand) {
  const auto lines = lines_of("one\n  two,,three \n");
  ASSERT_EQ(lines.size(), 3u);
  const LocatedText second = lines[1].trimmed();
  EXPECT_EQ(second.text, "two,,three");
  EXPECT_EQ(second.line, 2);
  EXPECT_EQ(second.column, 3);
  const auto parts = split(second, ',');
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1].text, "");
  EXPECT_EQ(parts[2].text, "three");
  EXPECT_EQ(parts[2].column, 8);
}

TEST(LocatedText, WordsStandBetweenBlanks) {
  const auto words = name_in_words({"a   bc ", 4, 1});
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[1].text, "bc");
  EXPECT_EQ(words[1].line, 4);
  EXPECT_EQ(words[1].column, 5);
}

}  // namespace
}  // namespace weft

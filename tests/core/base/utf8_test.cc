#include "core/base/utf8.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Utf8, KnowsWellFormedCharactersOfEachLength) {
  EXPECT_EQ(utf8_length("a", 0), 1u);
  EXPECT_EQ(utf8_length("\xc2\xa0", 0), 2u);
  EXPECT_EQ(utf8_length("\xe2\x82\xac", 0), 3u);
  EXPECT_EQ(utf8_length("\xf0\x9f\x98\x80", 0), 4u);
  EXPECT_EQ(utf8_length("\xf4\x8f\xbf\xbf", 0), 4u);  // U+10FFFF
  EXPECT_EQ(utf8_length("", 0), 0u);
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82", "\xe2\x82z",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"})
    EXPECT_EQ(utf8_length(bad, 0), 0u) << bad;
  EXPECT_EQ(valid_utf8_prefix("a\xc3\xa4 b\xffz"), 5u);
  EXPECT_EQ(valid_utf8_prefix("a\xc3\xa4"), 3u);
}

TEST(Printable, EscapesOnlyTerminalControlCharacters) {
  EXPECT_EQ(printable("a\tb\nc \xc3\xa4 \xe2\x82\xac"), "a\tb\nc \xc3\xa4 \xe2\x82\xac");
  EXPECT_EQ(printable("\x1b]0;title\x07\x1b[2J"), "\\x1b]0;title\\x07\\x1b[2J");
  EXPECT_EQ(printable("a\rb\x7f"), "a\\x0db\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J");  // U+009B begins a control sequence, like ESC [
  EXPECT_EQ(printable("caf\xe9!"), "caf\\xe9!");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable_line("a\nerror: b\tc"), "a\\x0aerror: b\tc");
}

}  // namespace
}  // namespace weft

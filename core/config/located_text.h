#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace weft {

/// Part of a text, with the place where it begins, for error messages of parsers. Borrows the text.
struct LocatedText {
  std::string_view text;
  int line = 1;
  int column = 1;

  LocatedText sub(std::size_t from, std::size_t count = std::string_view::npos) const {
    return {text.substr(from, count), line, column + static_cast<int>(from)};
  }
  /// Returns the text without leading and trailing white space.
  LocatedText trimmed() const;
};

/// Splits at each separator: "a,,b" has three parts: "a", "", "b".
std::vector<LocatedText> split(const LocatedText& text, char separator);

/// Splits at blanks: "a  b" has two words.
std::vector<LocatedText> name_in_words(const LocatedText& text);

/// Splits into lines, numbered from 1.
std::vector<LocatedText> lines_of(std::string_view text);

}  // namespace weft

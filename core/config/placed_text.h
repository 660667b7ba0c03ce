#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace weft {

/// Part of a text, with the place where it begins, for error messages of parsers. Borrows the text.
struct PlacedText {
  std::string_view text;
  int line = 1;
  int column = 1;

  PlacedText sub(std::size_t from, std::size_t count = std::string_view::npos) const {
    return {text.substr(from, count), line, column + static_cast<int>(from)};
  }
  /// Returns the text without leading and trailing white space.
  PlacedText trimmed() const;
};

/// Splits at each separator: "a,,b" has three parts: "a", "", "b".
std::vector<PlacedText> split(const PlacedText& text, char separator);

/// Splits at blanks: "a  b" has two words.
std::vector<PlacedText> words_of(const PlacedText& text);

/// Splits into lines, numbered from 1.
std::vector<PlacedText> lines_of(std::string_view text);

}  // namespace weft

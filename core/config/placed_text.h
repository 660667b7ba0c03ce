#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace weft {

/// A part of a text, with the place where it begins: what readers of text formats name in their
/// errors. Borrows the text.
struct PlacedText {
  std::string_view text;
  int line = 1;
  int column = 1;

  PlacedText sub(std::size_t from, std::size_t count = std::string_view::npos) const {
    return {text.substr(from, count), line, column + static_cast<int>(from)};
  }
  /// Without the blanks at its ends.
  PlacedText trimmed() const;
};

/// "a,,b" has three parts: "a", "", "b".
std::vector<PlacedText> split(const PlacedText& text, char separator);

/// What stands between blanks: "a  b" has two.
std::vector<PlacedText> words_of(const PlacedText& text);

/// Each with its number, from 1.
std::vector<PlacedText> lines_of(std::string_view text);

}  // namespace weft

#pragma once

#include <string>
#include <string_view>

#include "apps/data/picture.h"

namespace weft::apps {

// Words on pictures: captions and legends, in letters of 5 x 8 pixels.

/// Height of a line, and width of a letter, with the space after it. In pixels.
inline constexpr int kLineHeight = 10;
inline constexpr int kLetterWidth = 6;

/// Writes a line whose top left corner is (x, y). Letters that ASCII does not have are drawn as
/// '?'; what lies outside of the picture is cut off.
void draw_text(Picture& picture, int x, int y, std::string_view text, Colour colour);

/// "a longer te.." for a text that is wider than `width` pixels.
std::string text_within(std::string_view text, int width);

}  // namespace weft::apps

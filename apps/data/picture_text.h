#pragma once

#include <string>
#include <string_view>

#include "apps/data/picture.h"

namespace weft::apps {

// Text on pictures: captions and legends in a bitmap font of 5 x 8 pixels.

/// Pixel height of a line, and pixel width of a letter with the space after it.
inline constexpr int kLineHeight = 10;
inline constexpr int kLetterWidth = 6;

/// Draws a line of text with its top left corner at (x, y). Draws '?' for characters that are not
/// printable ASCII. Clips at the picture's edges.
void draw_text(Picture& picture, int x, int y, std::string_view text, Colour colour);

/// Returns the text, shortened to "a longer te.." if it is wider than `width` pixels.
std::string text_within(std::string_view text, int width);

}  // namespace weft::apps

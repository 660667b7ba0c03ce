#pragma once

#include <string>

namespace weft {

/// What a file descriptor writes to, as far as whoever prints cares. A value.
struct Terminal {
  bool redraws = false;  ///< A terminal on which a line can be drawn again.
  bool colour = false;   ///< It shows colours, and NO_COLOR (no-color.org) is not set.
  int columns = 80;
};

Terminal terminal_at(int descriptor);

/// Breaks lines of more than `columns` characters at spaces. What goes on stands `hang` columns to the right of where its line
/// began. A longer word stays whole. Escape sequences take no room; other characters take one column each.
///   wrap_lines("  model  GPT: four layers", 20, 7) is "  model  GPT: four\n         layers"
std::string wrap_lines(const std::string& text, int columns, int hang);

}  // namespace weft

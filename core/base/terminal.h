#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace weft {

/// What a message begins with so that it has a line of its own. On standard error that is a
/// terminal: the escape sequence that clears the line, in which a progress bar of any process may
/// stand. Else nothing.
std::string line_start(std::FILE* out);

/// For people who read along. A place that refuses it (a file on a full disk, whoever has hung up)
/// is no reason to fail, as it is for fmt::print, which throws.
template <typename... Values>
void say(std::FILE* out, fmt::format_string<Values...> format, Values&&... values) {
  std::fputs((line_start(out) + fmt::format(format, std::forward<Values>(values)...)).c_str(), out);
}

/// Opens /dev/null in place of the standard descriptors that this process was started without: the
/// next file or connection would get their numbers, and what is printed would go there. To be
/// called before anything else is opened.
void open_standard_descriptors();

/// The exit status of a command whose output is what was asked of it: `status` if standard output
/// has taken all of it, else 1, and `program` says on standard error why. Quiet where the reader
/// has hung up, as SIGPIPE is.
int status_after_output(const std::string& program, int status);

/// What a file descriptor writes to, as far as whoever prints cares. A value.
struct Terminal {
  bool redraws = false;  ///< A terminal on which a line can be drawn again.
  bool colour = false;   ///< It shows colours, and NO_COLOR (no-color.org) is not set.
  int columns = 80;
};

Terminal terminal_at(int descriptor);

/// Breaks lines of more than `columns` characters at spaces. What goes on stands `hang` columns to
/// the right of where its line began. A longer word stays whole. Escape sequences take no room;
/// other characters take one column each.
///   wrap_lines("  model  GPT: four layers", 20, 7) is "  model  GPT: four\n         layers"
std::string wrap_lines(const std::string& text, int columns, int hang);
/// Returns the text made printable(), and wrapped at the width where `descriptor` is a terminal. A
/// pipe or a file gets whole lines.
std::string fitted_to(int descriptor, const std::string& text, int hang = 2);

}  // namespace weft

#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace weft {

/// Returns the prefix that gives a message its own line. On a standard error that is a terminal:
/// the escape sequence that clears the line, which may show another process's progress bar.
/// Otherwise empty.
std::string message_prefix(std::FILE* out);

/// Prints a message for people. Ignores write errors (full disk, closed pipe), on which fmt::print
/// throws.
template <typename... Values>
void say(std::FILE* out, fmt::format_string<Values...> format, Values&&... values) {
  std::fputs((message_prefix(out) + fmt::format(format, std::forward<Values>(values)...)).c_str(),
             out);
}

/// Opens /dev/null for each standard descriptor that this process was started without. Otherwise
/// the next file or connection would get that number and receive printed text. Call before opening
/// anything.
void open_standard_descriptors();

/// Returns the exit status of a command whose result is its output: `status` if standard output was
/// written completely, else 1. On failure `program` reports the reason on standard error, except
/// for a closed pipe, which is silent like SIGPIPE.
int exit_status_after_flush(const std::string& program, int status);

/// Capabilities of the terminal, if any, behind a file descriptor.
struct Terminal {
  bool can_redraw_line = false;  ///< True for a terminal whose current line can be redrawn.
  bool colour = false;           ///< Colours are supported, and NO_COLOR (no-color.org) is not set.
  int columns = 80;
};

Terminal terminal_at(int descriptor);

/// Breaks lines longer than `columns` at spaces. Continuation lines are indented
/// `continuation_indent` columns more than the line's start. A longer word is not split. Escape
/// sequences have width 0, other characters width 1.
///   wrap_lines("  model  GPT: four layers", 20, 7) is "  model  GPT: four\n         layers"
std::string wrap_lines(const std::string& text, int columns, int continuation_indent);
/// Returns printable(text), wrapped at the terminal's width if `descriptor` is a terminal. Pipes
/// and files get unwrapped lines.
std::string wrapped_for_terminal(int descriptor, const std::string& text,
                                 int continuation_indent = 2);

}  // namespace weft

#include "core/base/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/base/utf8.h"

namespace weft {
namespace {

/// Returns the number of terminal columns that a word takes.
std::size_t width_of(std::string_view word) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] == '\x1b') {
      while (i + 1 < word.size() && word[i] != 'm' && word[i] != 'K') ++i;
    } else if ((static_cast<unsigned char>(word[i]) & 0xc0) != 0x80) {
      // Counts the first byte of each UTF-8 character.
      ++width;
    }
  }
  return width;
}

std::string wrap_line(std::string_view line, std::size_t columns, std::size_t continuation_indent) {
  const std::size_t margin = std::min(line.find_first_not_of(' '), line.size());
  if (width_of(line) <= columns) return std::string(line);
  std::string text;
  std::size_t at = 0;  // columns used in the current line
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t word = std::min(line.find_first_not_of(' ', begin), line.size());
    const std::size_t end = std::min(line.find(' ', word), line.size());
    const std::string_view next = line.substr(word, end - word);
    const std::size_t width = width_of(next);
    if (at > margin + continuation_indent && at + (word - begin) + width > columns) {
      text += "\n" + std::string(margin + continuation_indent, ' ');
      at = margin + continuation_indent;
    } else {
      text.append(word - begin, ' ');
      at += word - begin;
    }
    text += next;
    at += width;
    begin = end;
  }
  return text;
}

}  // namespace

std::string message_prefix(std::FILE* out) {
  return out == stderr && terminal_at(STDERR_FILENO).can_redraw_line ? "\r\x1b[K" : "";
}

void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free number, which is `descriptor`. Children inherit it.
    if (::open("/dev/null", O_RDWR) != descriptor) return;
  }
}

int exit_status_after_flush(const std::string& program, int status) {
  errno = 0;
  const bool taken = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  int why = errno;
  if (taken) return status;
  // The errno of an earlier failed write is lost; another write fails the same way.
  if (why == 0 && ::write(STDOUT_FILENO, "\n", 1) < 0) why = errno;
  if (why != EPIPE)
    say(stderr, "{}: cannot write to standard output{}\n", program,
        why == 0 ? "" : std::string(": ") + std::strerror(why));
  return status == 0 ? 1 : status;
}

Terminal terminal_at(int descriptor) {
  Terminal terminal;
  const char* kind = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  terminal.can_redraw_line =
      ::isatty(descriptor) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
  terminal.colour = terminal.can_redraw_line && (no_colour == nullptr || *no_colour == '\0');
  winsize size{};
  if (::isatty(descriptor) == 1 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    terminal.columns = size.ws_col;
  return terminal;
}

std::string wrap_lines(const std::string& text, int columns, int continuation_indent) {
  std::string result;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    result +=
        wrap_line(std::string_view(text).substr(begin, end - begin), columns, continuation_indent);
    if (end == text.size()) break;
    result += '\n';
    begin = end + 1;
  }
  return result;
}

std::string wrapped_for_terminal(int descriptor, const std::string& text, int continuation_indent) {
  const std::string shown = printable(text);
  return ::isatty(descriptor) == 1
             ? wrap_lines(shown, terminal_at(descriptor).columns, continuation_indent)
             : shown;
}

}  // namespace weft

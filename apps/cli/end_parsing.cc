#include "apps/cli/end_parsing.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>

#include "apps/cli/check_words.h"
#include "core/base/terminal.h"

namespace weft::apps {

int print_parse_result(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream out, err;
  const int status = app.exit(error, out, err);
  // Wrapped lines of an option's text are aligned with its first line, those of an error with the
  // line's start.
  const int continuation_indent = static_cast<int>(app.get_formatter()->get_column_width()) - 2;
  say(stdout, "{}", wrapped_for_terminal(STDOUT_FILENO, out.str(), continuation_indent));
  say(stderr, "{}", wrapped_for_terminal(STDERR_FILENO, err.str()));
  return status == 0 ? 0 : 2;
}

std::optional<int> parse_words(CLI::App& app, int argc, char** argv) {
  reject_unknown_words(app, {argv + 1, argv + argc});
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return print_parse_result(app, error);
  }
  return std::nullopt;
}

}  // namespace weft::apps

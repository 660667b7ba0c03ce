#pragma once

#include <optional>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace weft::apps {

/// Prints CLI11's error, help or version, wrapped to the terminal's width. Returns the exit status:
/// 2 after an error, else 0.
int print_parse_result(const CLI::App& app, const CLI::ParseError& error);

/// Parses the command line of a program beside `weft`. Returns its exit status if there is nothing
/// else to do. Throws the errors of reject_unknown_words().
std::optional<int> parse_words(CLI::App& app, int argc, char** argv);

}  // namespace weft::apps

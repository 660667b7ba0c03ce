#pragma once

#include <optional>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace weft::apps {

/// Prints what CLI11 has to say to words that it does not take, or that asked for help or the
/// version, as wide as the terminal is. Returns the exit status of `app`: 2, or 0 for what was
/// asked for.
int end_parsing(const CLI::App& app, const CLI::ParseError& error);

/// Reads the words of a program that stands beside `weft`: its exit status if that is all there is
/// to do. Throws Error(kInvalidArgument) as check_words() does.
std::optional<int> parse_words(CLI::App& app, int argc, char** argv);

}  // namespace weft::apps

#pragma once

#include <string>

namespace CLI {
class App;
}

namespace weft::apps {

/// Returns an example of a command of `weft`, such as "schedule show", for its --help and the
/// message about a missing argument. "" is the program itself. Throws std::out_of_range for an
/// unknown command.
std::string example_of(const std::string& command);

/// Appends the examples to --help of the command `path` and of all commands below it.
void add_examples(CLI::App& app, const std::string& path);

}  // namespace weft::apps

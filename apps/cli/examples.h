#pragma once

#include <string>

namespace CLI {
class App;
}

namespace weft::apps {

/// An example of a command of `weft`, "schedule show": the end of its --help, and of the message
/// about a missing argument. The program itself is "". Throws std::out_of_range for a command that
/// has none.
std::string example_of(const std::string& command);

/// Puts the examples at the end of --help, of the command `path` and all below it.
void add_examples(CLI::App& app, const std::string& path);

}  // namespace weft::apps

#pragma once

#include <string>

namespace CLI {
class App;
}

namespace weft::apps {

/// Completion of a command line for a shell, from its commands and options: "bash", "zsh" or
/// "fish". Throws Error(kInvalidArgument) for another shell.
std::string completion_for(const std::string& shell, const CLI::App& app);

}  // namespace weft::apps

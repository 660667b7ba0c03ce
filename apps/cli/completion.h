#pragma once

#include <string>

namespace CLI {
class App;
}

namespace weft::apps {

/// Returns a completion script for a shell, made from the commands and options of `app`: "bash",
/// "zsh" or "fish". Throws Error(kInvalidArgument) for another shell.
std::string completion_for(const std::string& shell, const CLI::App& app);

}  // namespace weft::apps

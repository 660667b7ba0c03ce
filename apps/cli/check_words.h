#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace weft::apps {

/// Returns the names of the commands of `app`.
std::vector<std::string> command_names(const CLI::App& app);

/// Rejects a command or an option that `app` does not have, and suggests the nearest one ("plan has
/// no option --shap; did you mean '--shape'?"), which CLI11 does not. Does not check words after a
/// prefix_command, which takes all that follow. Throws Error(kInvalidArgument).
void reject_unknown_words(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace weft::apps

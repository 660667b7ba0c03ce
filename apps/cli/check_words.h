#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace weft::apps {

/// The names of the commands of `app`.
std::vector<std::string> command_names(const CLI::App& app);

/// Refuses a command or an option that `app` does not have, with the nearest one ("plan has no
/// option --shap; did you mean '--shape'?"): CLI11 says what it did not expect, but not what was
/// meant. What comes after a command that takes all that follows (prefix_command) is that command's
/// own. Throws Error(kInvalidArgument).
void check_words(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace weft::apps

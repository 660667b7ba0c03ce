#include "apps/cli/check_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace weft::apps {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

void reject_unknown_words(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string path;
  // The caller prefixes the message with the program's name.
  const auto has_no = [&path] { return path.empty() ? "there is no" : path + " has no"; };
  for (const std::string& word : words) {
    const std::vector<std::string> commands = command_names(*command);
    if (!word.starts_with('-') && !commands.empty()) {
      if (std::ranges::find(commands, word) == commands.end())
        throw_error(ErrorCode::kInvalidArgument, "{} command '{}'{}", has_no(), word,
                    nearest_name(word, commands)
                        ? did_you_mean(word, commands)
                        : fmt::format("; there are {}", fmt::join(commands, ", ")));
      command = command->get_subcommand(word);
      path += (path.empty() ? "" : " ") + word;
      if (command->get_prefix_command()) return;
    } else if (word.starts_with("--") && word.size() > 2) {
      std::vector<std::string> options;
      for (const CLI::Option* option : command->get_options())
        for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
      const std::string name = word.substr(0, word.find('='));
      if (std::ranges::find(options, name) == options.end())
        throw_error(ErrorCode::kInvalidArgument, "{} option {}{}", has_no(), name,
                    nearest_name(name, options)
                        ? did_you_mean(name, options)
                        : fmt::format("; there are {}", fmt::join(options, ", ")));
    }
  }
}

}  // namespace weft::apps

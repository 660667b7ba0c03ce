#include "apps/cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace weft::apps {
namespace {

/// Command with the words that may follow it.
struct Command {
  std::string path;  ///< Names of the command and its parents: "schedule show"; "" for the program.
  std::vector<std::string> words;
  bool takes_files = false;
  const CLI::App* app = nullptr;
};

std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> words;
  for (const std::string& name : option.get_lnames()) words.push_back("--" + name);
  for (const std::string& name : option.get_snames()) words.push_back("-" + name);
  return words;
}

void collect(const CLI::App& app, const std::string& path, std::vector<Command>& commands) {
  Command command{path, {}, false, &app};
  for (const CLI::Option* option : app.get_options()) {
    for (std::string& word : spellings(*option)) command.words.push_back(std::move(word));
    command.takes_files = command.takes_files || option->get_positional();
  }
  const auto below = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* each : below) command.words.push_back(each->get_name());
  commands.push_back(std::move(command));
  for (const CLI::App* each : below)
    collect(*each, path.empty() ? each->get_name() : path + " " + each->get_name(), commands);
}

/// Returns the shell function for bash and zsh. It finds the command in the words typed before and
/// sets $offers to the words that may follow, and $files to "yes" if a file may follow.
std::string words_function(const std::vector<Command>& commands) {
  std::string known, cases;
  for (const Command& command : commands) {
    if (!command.path.empty())
      known += fmt::format("{}'{}'", known.empty() ? "" : "|", command.path);
    cases += fmt::format("    '{}') offers='{}'; files={} ;;\n", command.path,
                         fmt::join(command.words, " "), command.takes_files ? "yes" : "no");
  }
  return fmt::format(
      "_weft_words() {{\n"
      "  local path= next\n"
      "  for next in \"$@\"; do\n"
      "    case \"${{path:+$path }}$next\" in\n"
      "      {}) path=\"${{path:+$path }}$next\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$path\" in\n{}  esac\n"
      "}}\n",
      known, cases);
}

std::string bash_text(const std::vector<Command>& commands) {
  return "# source <(weft completion bash)\n" + words_function(commands) +
         "_weft() {\n"
         "  local offers files word=${COMP_WORDS[COMP_CWORD]}\n"
         "  _weft_words \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$offers\" -- \"$word\"\n"
         "    [ \"$files\" = no ] || compgen -f -- \"$word\")\n"
         "}\n"
         "complete -o filenames -F _weft weft\n";
}

std::string zsh_text(const std::vector<Command>& commands) {
  return "#compdef weft\n# source <(weft completion zsh), after compinit\n" +
         words_function(commands) +
         "_weft() {\n"
         "  local words_before=(\"${words[@]:1:$((CURRENT-2))}\")\n"
         "  local offers files\n"
         "  _weft_words \"${words_before[@]}\"\n"
         "  compadd -- ${=offers}\n"
         "  [ \"$files\" = no ] || _files\n"
         "}\n"
         "compdef _weft weft\n";
}

/// Quotes a text for fish; a quote becomes \'.
std::string quoted_for_fish(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    if (c != '\n') result += c;
  }
  return result + "'";
}

std::string fish_text(const std::vector<Command>& commands) {
  std::string text = "# weft completion fish | source\ncomplete -c weft -f\n";
  for (const Command& command : commands) {
    const std::string condition =
        command.path.empty()
            ? "__fish_use_subcommand"
            : fmt::format(
                  "string match -qr -- '^weft {}( |$)' (string join ' ' (commandline -opc))",
                  command.path);
    const std::string begin = fmt::format("complete -c weft -n {}", quoted_for_fish(condition));
    if (command.takes_files) text += begin + " -F\n";
    for (const CLI::App* each : command.app->get_subcommands([](const CLI::App*) { return true; }))
      text += fmt::format("{} -a {} -d {}\n", begin, each->get_name(),
                          quoted_for_fish(each->get_description()));
    for (const CLI::Option* option : command.app->get_options())
      for (const std::string& word : spellings(*option))
        text += fmt::format("{} -{} {}{} -d {}\n", begin, word.starts_with("--") ? "l" : "s",
                            word.substr(word.find_first_not_of('-')),
                            option->get_expected_max() > 0 ? " -r" : "",
                            quoted_for_fish(option->get_description()));
  }
  return text;
}

}  // namespace

std::string completion_for(const std::string& shell, const CLI::App& app) {
  std::vector<Command> commands;
  collect(app, "", commands);
  if (shell == "bash") return bash_text(commands);
  if (shell == "zsh") return zsh_text(commands);
  if (shell == "fish") return fish_text(commands);
  throw_error(ErrorCode::kInvalidArgument,
              "there is no completion for '{}', only bash, zsh, fish{}", shell,
              did_you_mean(shell, {"bash", "zsh", "fish"}));
}

}  // namespace weft::apps

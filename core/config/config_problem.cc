#include "core/config/config_problem.h"

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "core/config/config_document.h"

namespace weft {
namespace {

/// Returns the key of a problem: among the keys at its place, the one named in the message, else
/// the outermost.
std::optional<std::string> key_of(const std::vector<std::string>& there,
                                  const std::string& message) {
  std::optional<std::string> named;
  for (const std::string& key : there) {
    const std::string last = key.substr(key.find_last_of('.') + 1);
    if (message.starts_with(key + ":")) return key;
    if (!named && message.find("'" + last + "'") != std::string::npos) named = key;
  }
  if (named || there.empty()) return named;
  return there.front();
}

}  // namespace

std::vector<ConfigProblem> problems_of(const Error& error, const std::filesystem::path& file,
                                       std::span<const std::string> overrides) {
  std::optional<ConfigDocument> document;
  try {
    document = ConfigDocument::load(file, overrides);
  } catch (const Error&) {
    // The file is not valid YAML, so keys stay unknown.
  }
  static const std::regex kPlace(R"(^(.+?):(\d+):(\d+): (.*)$)"),
      kOverride(R"(^(command line: --set ([^=]+)=.*?): (.*)$)"),
      kNearest(R"(did you mean '([^']*)'\?)");
  std::vector<ConfigProblem> problems;
  std::istringstream lines(error.message());
  for (std::string line; std::getline(lines, line);) {
    ConfigProblem problem;
    problem.message = line;
    std::smatch match;
    std::string where;
    if (std::regex_match(line, match, kOverride)) {
      problem.key = match[2];
      problem.message = match[3];
    } else if (std::regex_match(line, match, kPlace)) {
      problem.file = match[1];
      problem.line = std::stoi(match[2]);
      problem.column = std::stoi(match[3]);
      problem.message = match[4];
      where = line.substr(0, match.position(4) - 2);
    }
    if (document && !where.empty()) problem.key = key_of(document->keys_at(where), problem.message);
    if (std::regex_search(problem.message, match, kNearest)) problem.nearest = match[1];
    problems.push_back(std::move(problem));
  }
  return problems;
}

std::string problems_json(const std::filesystem::path& file,
                          const std::vector<ConfigProblem>& problems) {
  const auto or_null = [](const auto& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json json = {
      {"file", file.string()}, {"valid", false}, {"problems", nlohmann::ordered_json::array()}};
  for (const ConfigProblem& problem : problems)
    json["problems"].push_back({{"file", or_null(problem.file)},
                                {"line", or_null(problem.line)},
                                {"column", or_null(problem.column)},
                                {"key", or_null(problem.key)},
                                {"message", problem.message},
                                {"nearest", or_null(problem.nearest)}});
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace weft

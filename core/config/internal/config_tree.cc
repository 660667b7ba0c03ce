#include "core/config/internal/config_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace weft::internal {

ConfigValue::MapMember* ConfigValue::member(std::string_view key) {
  for (MapMember& candidate : members)
    if (candidate.key == key) return &candidate;
  return nullptr;
}

ConfigKey& ConfigOutline::key(const std::string& path) {
  for (ConfigKey& known : keys)
    if (known.path == path) return known;
  keys.push_back({});
  keys.back().path = path;
  return keys.back();
}

void ConfigTree::record_problem(RecordedProblem problem) {
  if (outline) return;
  for (const RecordedProblem& known : problems)
    if (known.message == problem.message) return;
  problems.push_back(std::move(problem));
}

void ConfigTree::record_unread_keys(const ConfigValue& value) {
  for (const auto& element : value.elements) record_unread_keys(*element);
  for (const ConfigValue::MapMember& member : value.members) {
    if (member.is_excluded) continue;
    if (member.was_read) {
      const auto& path = member.value->path;
      const bool refused = std::any_of(problems.begin(), problems.end(),
                                       [&](const auto& p) { return p.path == path; });
      if (!refused) record_unread_keys(*member.value);
      continue;
    }
    std::vector<std::string> free_keys;
    for (const std::string& key : value.known_keys)
      if (!std::any_of(value.members.begin(), value.members.end(),
                       [&](const auto& m) { return m.key == key; }))
        free_keys.push_back(key);
    std::string hint = did_you_mean(member.key, free_keys);
    if (hint.empty()) hint = did_you_mean(member.key, value.known_keys);
    if (hint.empty() && !value.known_keys.empty())
      hint = fmt::format("; known here: {}", fmt::join(value.known_keys, ", "));
    const std::string place = value.path.empty() ? "" : fmt::format(" in {}", value.path);
    record_problem(
        {member.order, child_path(value.path, member.key),
         fmt::format("{}: unknown key '{}'{}{}", member.where, member.key, place, hint)});
  }
}

void ConfigTree::throw_problems(std::string_view path) {
  std::vector<RecordedProblem> found;
  for (const RecordedProblem& problem : problems) {
    const bool below = path.empty() || problem.path == path ||
                       (problem.path.starts_with(path) &&
                        (problem.path[path.size()] == '.' || problem.path[path.size()] == '['));
    if (below) found.push_back(problem);
  }
  if (found.empty()) return;
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.order < b.order; });
  std::vector<std::string> lines;
  lines.reserve(found.size());
  for (const RecordedProblem& problem : found) lines.push_back(problem.message);
  throw Error(ErrorCode::kInvalidConfig, fmt::format("{}", fmt::join(lines, "\n")));
}

std::string child_path(const std::string& parent, std::string_view key) {
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

void assign_paths(ConfigValue& value, const std::string& path) {
  value.path = path;
  for (ConfigValue::MapMember& member : value.members)
    assign_paths(*member.value, child_path(path, member.key));
  for (std::size_t i = 0; i < value.elements.size(); ++i)
    assign_paths(*value.elements[i], fmt::format("{}[{}]", path, i));
}

}  // namespace weft::internal

#include <fmt/format.h>

#include <charconv>

#include "core/base/error.h"
#include "core/config/internal/config_tree.h"

namespace weft::internal {
namespace {

std::optional<std::size_t> as_index(const std::string& text) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return index;
}

}  // namespace

void apply_override(ConfigTree& tree, const std::string& assignment) {
  const std::string where = "command line: --set " + assignment;
  const auto fail = [&](const std::string& text) {
    throw Error(ErrorCode::kInvalidConfig, where + ": " + text);
  };
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    fail("expected key.path=value, for example training.steps=10");
  auto replacement = parse_yaml(assignment.substr(equals + 1), "", where);
  if (!replacement) {
    replacement = std::make_unique<ConfigValue>();
    replacement->where = where;
  }

  std::unique_ptr<ConfigValue>* slot = &tree.root;
  std::string path = assignment.substr(0, equals);
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, end - begin);
    if (key.empty()) fail("the path has an empty part; expected key.path=value");
    ConfigValue& here = **slot;
    const std::string here_name =
        begin == 0 ? "the document" : "'" + path.substr(0, begin - 1) + "'";
    if (here.kind == ConfigNode::Kind::kNull) here.kind = ConfigNode::Kind::kMap;
    if (here.kind == ConfigNode::Kind::kList) {
      const auto index = as_index(key);
      if (!index || *index >= here.elements.size())
        fail(fmt::format("{} is a list of length {}; '{}' is not one of its indices", here_name,
                         here.elements.size(), key));
      slot = &here.elements[*index];
    } else if (here.kind == ConfigNode::Kind::kMap) {
      auto* member = here.member(key);
      if (member == nullptr) {
        auto fresh = std::make_unique<ConfigValue>();
        fresh->where = where;
        here.members.push_back({key, where, 0, false, false, std::move(fresh)});
        member = &here.members.back();
      }
      slot = &member->value;
    } else {
      fail(fmt::format("{} is a single value ({}), so it has no key '{}'", here_name, here.where,
                       key));
    }
    begin = end + 1;
  }
  *slot = std::move(replacement);
}

}  // namespace weft::internal

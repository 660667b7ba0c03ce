#include "core/config/config_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/units.h"
#include "core/config/internal/config_tree.h"
#include "core/config/internal/parse_number.h"

namespace weft {
namespace {

constexpr std::string_view kCommandLine = "command line: ";

std::string found(const internal::ConfigValue& value) {
  switch (value.kind) {
    case ConfigNode::Kind::kNull: return "nothing";
    case ConfigNode::Kind::kList: return "a list";
    case ConfigNode::Kind::kMap: return "a map of keys";
    case ConfigNode::Kind::kScalar: break;
  }
  return value.quoted ? fmt::format("the text \"{}\"", value.text)
                      : fmt::format("'{}'", value.text);
}

/// Returns the bounds as text. Omits bounds that are just the limits of int or float.
template <typename T>
std::string bounds(T min, T max, T edge) {
  if (min > -edge && max < edge) return fmt::format(" from {} to {}", min, max);
  if (min > -edge) return fmt::format(" of at least {}", min);
  if (max < edge) return fmt::format(" of at most {}", max);
  return "";
}

}  // namespace

namespace internal {

void describe_flag(ConfigKey& key) {
  key.type = ConfigKey::Type::kFlag;
  key.type_text = "true or false";
}

void describe_integer(ConfigKey& key, std::int64_t min, std::int64_t max) {
  constexpr std::int64_t kEdge = std::numeric_limits<std::int32_t>::max();
  key.type = ConfigKey::Type::kInteger;
  key.type_text = "whole number" + bounds(min, max, kEdge);
  if (min > -kEdge) key.min = static_cast<double>(min);
  if (max < std::numeric_limits<std::int64_t>::max()) key.max = static_cast<double>(max);
}

void describe_number(ConfigKey& key, double min, double max) {
  constexpr double kHighest = std::numeric_limits<float>::max();
  key.type = ConfigKey::Type::kNumber;
  key.type_text = "number" + bounds(min, max, kHighest);
  if (min > -kHighest) key.min = min;
  if (max < kHighest) key.max = max;
}

void describe_text(ConfigKey& key) {
  key.type = ConfigKey::Type::kText;
  key.type_text = "text";
}

void describe_duration(ConfigKey& key) {
  key.type = ConfigKey::Type::kDuration;
  key.type_text = "duration, such as 250ms, 5s, 2min";
}

void describe_list(ConfigKey& key) {
  key.type = ConfigKey::Type::kList;
  key.type_text = "list of " + (key.type_text.empty() ? "values" : key.type_text);
}

std::string yaml_text(bool value) { return value ? "true" : "false"; }
std::string yaml_text(std::int64_t value) { return std::to_string(value); }
std::string yaml_text(double value) { return fmt::format("{:g}", value); }

}  // namespace internal

bool ConfigNode::is_outline() const { return tree_->outline != nullptr; }

ConfigKey& ConfigNode::declare(std::string_view key, const KeyDescription& text,
                               Presence presence) const {
  ConfigKey& described = tree_->outline->key(internal::child_path(path(), key));
  described.summary = text.summary();
  described.unit = text.unit();
  described.required = presence == Presence::kRequired && !text.is_conditional();
  described.type_text = text.type();
  set_default(described, "", text);
  described.accepts_text = !text.alternative().empty();
  if (described.accepts_text) described.type_text = text.alternative();
  return described;
}

void ConfigNode::set_default(ConfigKey& key, const std::string& value, const KeyDescription& text) {
  key.default_text = text.by_default().empty() ? value : text.by_default();
}

void ConfigNode::describe_choices(ConfigKey& key, const KeyDescription& text) {
  key.type = ConfigKey::Type::kText;
  key.type_text =
      fmt::format("one of {}{}", fmt::join(key.choices, ", "),
                  text.alternative().empty() ? "" : fmt::format("; or {}", text.alternative()));
}

ConfigNode ConfigNode::outline_of(std::string_view key) const {
  auto value = std::make_unique<internal::ConfigValue>();
  value->kind = Kind::kMap;
  value->where = value_->where;
  value->path = key == "[]" ? path() + "[]" : internal::child_path(path(), key);
  tree_->outline->values.push_back(std::move(value));
  return ConfigNode(tree_, tree_->outline->values.back().get());
}

ConfigKey& ConfigNode::described() const { return tree_->outline->key(path()); }

ConfigNode::Kind ConfigNode::kind() const { return value_->kind; }
const std::string& ConfigNode::path() const { return value_->path; }
std::string ConfigNode::where() const { return value_->where; }

std::optional<ConfigNode> ConfigNode::find(std::string_view key, const KeyDescription& text) const {
  if (!is_outline()) return find(key);
  declare(key, text, Presence::kOptional);
  if (!text.type().empty()) return std::nullopt;
  return outline_of(key);
}

ConfigNode ConfigNode::at(std::string_view key, const KeyDescription& text) const {
  if (!is_outline()) return at(key);
  declare(key, text, Presence::kRequired);
  return outline_of(key);
}

std::optional<ConfigNode> ConfigNode::find(std::string_view key) const {
  if (is_outline()) {
    tree_->outline->key(internal::child_path(path(), key));
    return outline_of(key);
  }
  if (value_->kind == Kind::kNull) return std::nullopt;
  if (value_->kind != Kind::kMap) mismatch("a map of keys");
  if (std::find(value_->known_keys.begin(), value_->known_keys.end(), key) ==
      value_->known_keys.end())
    value_->known_keys.emplace_back(key);
  auto* member = value_->member(key);
  if (member == nullptr) return std::nullopt;
  member->was_read = true;
  if (member->value->kind == Kind::kNull) return std::nullopt;
  return ConfigNode(tree_, member->value.get());
}

ConfigNode ConfigNode::at(std::string_view key) const {
  if (auto node = find(key)) return *node;
  if (const auto* empty = value_->member(key))
    throw_error(ErrorCode::kInvalidConfig, "{}: '{}' has no value; add one, or remove the key",
                empty->value->where.starts_with(kCommandLine) ? empty->value->where : empty->where,
                key);
  std::vector<std::string> present;
  for (const auto& member : value_->members)
    if (!member.was_read && !member.is_excluded) present.push_back(member.key);
  const auto misspelt = nearest_name(key, present);
  if (misspelt)
    throw_error(ErrorCode::kInvalidConfig, "{}: unknown key '{}'{}; did you mean '{}'?",
                value_->member(*misspelt)->where, *misspelt, path().empty() ? "" : " in " + path(),
                key);
  throw_error(ErrorCode::kInvalidConfig, "{}: {} needs the key '{}'", where(),
              path().empty() ? "the document" : path(), key);
}

void ConfigNode::exclude_key(std::string_view key) const {
  if (is_outline()) return;
  find(key);
  if (auto* member = value_->member(key)) member->is_excluded = true;
}

std::vector<ConfigNode> ConfigNode::items() const {
  if (is_outline()) {
    described().type = ConfigKey::Type::kList;
    if (described().type_text.empty()) described().type_text = "list";
    return {outline_of("[]")};
  }
  if (value_->kind != Kind::kList) mismatch("a list, such as [a, b]");
  std::vector<ConfigNode> nodes;
  for (const auto& element : value_->elements) nodes.push_back(ConfigNode(tree_, element.get()));
  return nodes;
}

std::vector<std::pair<std::string, ConfigNode>> ConfigNode::entries(
    std::string_view placeholder, const KeyDescription& text) const {
  if (!is_outline()) return entries();
  declare(placeholder, text, Presence::kOptional);
  if (!text.type().empty()) return {};
  return {{std::string(placeholder), outline_of(placeholder)}};
}

std::vector<std::pair<std::string, ConfigNode>> ConfigNode::entries() const {
  if (is_outline()) return {{"NAME", outline_of("NAME")}};
  if (value_->kind == Kind::kNull) return {};
  if (value_->kind != Kind::kMap) mismatch("a map of keys");
  std::vector<std::pair<std::string, ConfigNode>> nodes;
  for (auto& member : value_->members) {
    member.was_read = true;
    nodes.emplace_back(member.key, ConfigNode(tree_, member.value.get()));
  }
  return nodes;
}

void ConfigNode::record_problem(std::string text) const {
  tree_->record_problem({value_->order, path(), fmt::format("{}: {}", where(), text)});
}

void ConfigNode::record_key_problem(std::string_view key, std::string text) const {
  const auto* member = value_->member(key);
  if (member == nullptr) return record_problem(std::move(text));
  tree_->record_problem(
      {member->order, member->value->path, fmt::format("{}: {}", member->where, text)});
}

void ConfigNode::fail(std::string text) const {
  throw Error(ErrorCode::kInvalidConfig, fmt::format("{}: {}", where(), text));
}

void ConfigNode::record_current_error(std::string_view key) const {
  const Error error = current_error();
  if (error.code() != ErrorCode::kInvalidConfig) throw error;
  const auto* member = value_->member(key);
  const internal::ConfigValue& origin = member == nullptr ? *value_ : *member->value;
  std::istringstream lines(error.message());
  for (std::string line; std::getline(lines, line);)
    tree_->record_problem({origin.order, origin.path, line});
}

void ConfigNode::finish() const {
  if (is_outline()) {
    // Ends the reader at a section or the document; values nested deeper are read on.
    if (path().find_first_of(".[") == std::string::npos) throw internal::OutlineSectionEnd();
    return;
  }
  tree_->record_unread_keys(*value_);
  tree_->throw_problems(path());
}

void ConfigNode::mismatch(std::string_view expected) const {
  // "{data:2}" is a key 'data:2' without a value.
  const bool glued = value_->kind == Kind::kNull && path().find(':') != std::string::npos;
  throw_error(ErrorCode::kInvalidConfig, "{}: {}: expected {}, found {}{}", where(),
              path().empty() ? "the document" : path(), expected, found(*value_),
              glued ? "; put a space after the colon" : "");
}

const internal::ConfigValue& ConfigNode::scalar(std::string_view expected) const {
  if (value_->kind != Kind::kScalar) mismatch(expected);
  return *value_;
}

std::int64_t ConfigNode::as_integer(std::int64_t min, std::int64_t max) const {
  if (is_outline()) {
    internal::describe_integer(described(), min, max);
    return std::clamp<std::int64_t>(0, min, max);
  }
  constexpr std::int64_t kEdge = std::numeric_limits<std::int32_t>::max();
  const std::string expected = "a whole number" + bounds(min, max, kEdge);
  const auto& value = scalar(expected);
  const auto result =
      value.quoted ? std::nullopt : internal::parse_number<std::int64_t>(value.text);
  if (!result || *result < min || *result > max) mismatch(expected);
  return *result;
}

double ConfigNode::as_number(double min, double max) const {
  if (is_outline()) {
    internal::describe_number(described(), min, max);
    return std::clamp(0.0, min, max);
  }
  constexpr double kHighest = std::numeric_limits<float>::max();
  const std::string expected = "a number" + bounds(min, max, kHighest);
  const auto& value = scalar(expected);
  const auto result = value.quoted ? std::nullopt : internal::parse_number<double>(value.text);
  if (!result || !std::isfinite(*result) || *result < min || *result > max) mismatch(expected);
  return *result;
}

bool ConfigNode::as_bool() const {
  if (is_outline()) {
    internal::describe_flag(described());
    return false;
  }
  const auto& value = scalar("true or false");
  if (value.quoted || (value.text != "true" && value.text != "false")) mismatch("true or false");
  return value.text == "true";
}

std::string ConfigNode::as_string() const {
  if (!is_outline()) return scalar("text").text;
  if (described().type_text.empty()) internal::describe_text(described());
  return "";
}

std::filesystem::path ConfigNode::as_path() const {
  if (is_outline()) {
    described().type = ConfigKey::Type::kPath;
    if (described().type_text.empty()) described().type_text = "path";
    return {};
  }
  namespace fs = std::filesystem;
  const std::string& text = scalar("a path").text;
  const char* home = std::getenv("HOME");
  fs::path path;
  if (home != nullptr && text.starts_with("~/")) {
    path = fs::path(home) / text.substr(2);
  } else {
    // A value from --set has no file.
    const bool in_file = !where().starts_with(kCommandLine);
    const fs::path& own = value_->folder;
    path = ((!own.empty() ? own
             : in_file    ? tree_->folder
                          : fs::current_path()) /
            text)
               .lexically_normal();
  }
  value_->absolute = path.string();
  return path;
}

std::filesystem::path ConfigNode::as_input_file() const {
  std::filesystem::path path = as_path();
  value_->is_input_file = true;
  return path;
}

bool ConfigNode::names_input_file() const { return value_->is_input_file; }

std::size_t ConfigNode::choice(const std::vector<std::string>& names,
                               const KeyDescription& text) const {
  if (is_outline()) {
    described().choices = names;
    describe_choices(described(), text);
    return 0;
  }
  const std::string expected = fmt::format("one of {}", fmt::join(names, ", "));
  const auto& value = scalar(expected);
  const auto it = std::find(names.begin(), names.end(), value.text);
  if (it != names.end()) return it - names.begin();
  const std::string_view meant = text.synonym_of(value.text);
  throw_error(
      ErrorCode::kInvalidConfig, "{}: {}: expected {}, found {}{}", where(), path(), expected,
      found(value),
      meant.empty() ? did_you_mean(value.text, names) : fmt::format("; did you mean '{}'?", meant));
}

}  // namespace weft

#include "core/config/config_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/config/config_document.h"
#include "core/config/internal/config_tree.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

/// Tree of keys.
struct KeyTree {
  const ConfigKey* key = nullptr;
  /// Children; "[]" is the element of a list.
  std::vector<std::pair<std::string, std::unique_ptr<KeyTree>>> below;

  KeyTree& child(const std::string& name) {
    for (auto& [known, tree] : below)
      if (known == name) return *tree;
    below.emplace_back(name, std::make_unique<KeyTree>());
    return *below.back().second;
  }
};

/// Splits a path: "pipeline.stages[].mesh" into pipeline, stages, [], mesh.
std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < path.size();) {
    const bool item = path.compare(begin, 2, "[]") == 0;
    const std::size_t end =
        item ? begin + 2 : std::min(path.find_first_of(".[", begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end < path.size() && path[end] == '.' ? end + 1 : end;
  }
  return parts;
}

/// Returns true if a part of a path stands for words of the user, such as NAME.
bool is_placeholder(const std::string& part) {
  return part != "[]" && part.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == std::string::npos;
}

/// Returns the permitted values in words.
std::string type_of(const ConfigKey& key) {
  if (key.type != ConfigKey::Type::kUnknown) return key.type_text;
  if (key.type_text.empty()) return "map of keys";
  return key.accepts_text ? key.type_text + ", or a map of keys" : key.type_text;
}

Json schema_of_number(const ConfigKey& key) {
  Json schema = {{"type", key.type == ConfigKey::Type::kInteger ? "integer" : "number"}};
  if (key.min) schema["minimum"] = *key.min;
  if (key.max) schema["maximum"] = *key.max;
  return schema;
}

Json schema_of_scalar(const ConfigKey& key) {
  using Type = ConfigKey::Type;
  if (!key.choices.empty() && !key.accepts_text) return {{"enum", key.choices}};
  switch (key.type) {
    case Type::kFlag: return {{"type", "boolean"}};
    case Type::kInteger:
    case Type::kNumber: return schema_of_number(key);
    case Type::kList: return {{"type", "array"}};
    case Type::kText:
    case Type::kPath:
    case Type::kDuration:
    case Type::kBytes:
    case Type::kRate: return {{"type", Json::array({"string", "number", "boolean"})}};
    case Type::kMap: return {{"type", "object"}};
    case Type::kUnknown: break;
  }
  return Json::object();
}

Json schema_of(const KeyTree& tree);

Json schema_of_map(const KeyTree& tree) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  Json required = Json::array();
  for (const auto& [name, child] : tree.below) {
    if (is_placeholder(name)) schema["additionalProperties"] = schema_of(*child);
    else schema["properties"][name] = schema_of(*child);
    if (child->key != nullptr && child->key->required && !is_placeholder(name))
      required.push_back(name);
  }
  if (!required.empty()) schema["required"] = required;
  return schema;
}

Json schema_of(const KeyTree& tree) {
  Json schema = Json::object();
  const bool is_list = tree.below.size() == 1 && tree.below.front().first == "[]";
  if (tree.below.empty()) {
    schema = tree.key == nullptr ? Json::object() : schema_of_scalar(*tree.key);
  } else if (is_list) {
    schema["type"] = "array";
    schema["items"] = schema_of(*tree.below.front().second);
  } else {
    schema = schema_of_map(tree);
  }
  if (tree.key == nullptr) return schema;
  // A key without a value counts as absent.
  if (!tree.below.empty()) {
    Json any = Json::array({schema, {{"type", "null"}}});
    if (tree.key->accepts_text) any.push_back({{"type", "string"}});
    schema = {{"anyOf", any}};
  } else if (!schema.empty()) {
    schema = {{"anyOf", Json::array({schema, {{"type", "null"}}})}};
  }
  schema["description"] = tree.key->summary;
  if (!tree.key->default_text.empty()) schema["default"] = tree.key->default_text;
  return schema;
}

}  // namespace

KeyDescription KeyDescription::unit(std::string_view unit) && {
  unit_ = unit;
  return *this;
}
KeyDescription KeyDescription::type(std::string_view type) && {
  type_ = type;
  return *this;
}
KeyDescription KeyDescription::alternative(std::string_view alternative) && {
  alternative_ = alternative;
  return *this;
}
KeyDescription KeyDescription::by_default(std::string_view value) && {
  default_ = value;
  return *this;
}
KeyDescription KeyDescription::conditional() && {
  conditional_ = true;
  return *this;
}
KeyDescription KeyDescription::synonym(std::string_view word, std::string_view meant) && {
  synonym_ = {word, meant};
  return *this;
}

std::vector<ConfigKey> keys_read_by(const std::function<void(const ConfigDocument&)>& read) {
  const ConfigDocument document = ConfigDocument::outline();
  try {
    read(document);
  } catch (const internal::OutlineSectionEnd&) {
    // The reader has read all of its keys.
  } catch (...) {
    throw_error(ErrorCode::kInternal, "the keys of the run file cannot be listed: {}",
                current_error().message());
  }
  return document.keys();
}

std::string keys_text(const std::vector<ConfigKey>& keys) {
  std::string text;
  for (const ConfigKey& key : keys) {
    std::string value = type_of(key);
    if (!key.unit.empty()) value += fmt::format(", {}", key.unit);
    if (key.required) value += "; required";
    else if (!key.default_text.empty()) value += fmt::format("; default {}", key.default_text);
    text += fmt::format("{}: {}\n    {}\n", key.path, value, key.summary);
  }
  return text;
}

std::string keys_json(const std::vector<ConfigKey>& keys) {
  Json list = Json::array();
  for (const ConfigKey& key : keys) {
    Json one = {{"key", key.path},
                {"type", type_of(key)},
                {"required", key.required},
                {"default", key.default_text.empty() ? Json() : Json(key.default_text)},
                {"unit", key.unit.empty() ? Json() : Json(key.unit)},
                {"line", key.summary}};
    if (!key.choices.empty()) one["choices"] = key.choices;
    if (key.min) one["min"] = *key.min;
    if (key.max) one["max"] = *key.max;
    list.push_back(std::move(one));
  }
  return list.dump(2) + "\n";
}

std::string keys_schema(const std::vector<ConfigKey>& keys, const std::string& title) {
  KeyTree root;
  for (const ConfigKey& key : keys) {
    KeyTree* tree = &root;
    for (const std::string& part : parts_of(key.path)) tree = &tree->child(part);
    tree->key = &key;
  }
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  schema.update(schema_of(root));
  return schema.dump(2) + "\n";
}

}  // namespace weft

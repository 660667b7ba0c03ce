#include "core/config/config_document.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/config/internal/config_tree.h"

namespace weft {

ConfigDocument::ConfigDocument(std::unique_ptr<internal::ConfigTree> tree)
    : tree_(std::move(tree)) {}
ConfigDocument::ConfigDocument(ConfigDocument&&) noexcept = default;
ConfigDocument& ConfigDocument::operator=(ConfigDocument&&) noexcept = default;
ConfigDocument::~ConfigDocument() = default;

ConfigDocument ConfigDocument::load(const std::filesystem::path& path,
                                    std::span<const std::string> overrides,
                                    const std::filesystem::path& folder) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || std::filesystem::is_directory(path) || !(text << file.rdbuf()))
    throw_error(ErrorCode::kInvalidConfig, "{}: cannot be read; is the path right?", path.string());
  ConfigDocument document = parse(text.str(), path.string(), overrides);
  if (!folder.empty()) document.tree_->folder = folder;
  return document;
}

ConfigDocument ConfigDocument::parse(const std::string& text, const std::string& name,
                                     std::span<const std::string> overrides) {
  auto tree = std::make_unique<internal::ConfigTree>();
  tree->name = name;
  tree->folder = std::filesystem::absolute(name).parent_path();
  tree->root = internal::parse_yaml(text, name, "");
  if (!tree->root || tree->root->kind == ConfigNode::Kind::kNull)
    throw_error(ErrorCode::kInvalidConfig,
                "{}:1:1: the document is empty; expected 'key: value' lines", name);
  if (tree->root->kind != ConfigNode::Kind::kMap)
    throw_error(ErrorCode::kInvalidConfig, "{}: expected 'key: value' lines at the top level",
                tree->root->where);
  for (const std::string& assignment : overrides) internal::apply_override(*tree, assignment);
  internal::assign_paths(*tree->root, "");
  return ConfigDocument(std::move(tree));
}

namespace {
void collect_keys(const internal::ConfigValue& value, const std::string& where,
                  std::vector<std::string>& keys) {
  if (value.where == where && !value.path.empty()) keys.push_back(value.path);
  for (const internal::ConfigValue::Member& member : value.members) {
    if (member.where == where && member.value->where != where) keys.push_back(member.value->path);
    collect_keys(*member.value, where, keys);
  }
  for (const auto& element : value.elements) collect_keys(*element, where, keys);
}
}  // namespace

std::vector<std::string> ConfigDocument::keys_at(const std::string& where) const {
  std::vector<std::string> keys;
  collect_keys(*tree_->root, where, keys);
  return keys;
}

ConfigNode ConfigDocument::root() const { return ConfigNode(tree_.get(), tree_->root.get()); }

bool ConfigDocument::attempt(const std::function<void()>& read_section) const {
  try {
    read_section();
    return true;
  } catch (...) {
    root().keep_current_error("");
    return false;
  }
}

void ConfigDocument::finish() const { root().finish(); }

}  // namespace weft

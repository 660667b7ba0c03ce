#include "core/config/config_document.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
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
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // Inserting an empty file's stream buffer sets failbit, so an empty file is handled separately.
  const bool is_empty = file && file.peek() == std::ifstream::traits_type::eof() && !file.bad();
  if (is_empty) file.clear();
  if (!file || std::filesystem::is_directory(path) || (!is_empty && !(text << file.rdbuf()))) {
    const int reason = std::filesystem::is_directory(path) ? EISDIR : errno;
    throw_error(ErrorCode::kInvalidConfig, "{}: cannot be read{}{}; check the path", path.string(),
                reason == 0 ? "" : ": ", reason == 0 ? "" : std::strerror(reason));
  }
  ConfigDocument document = parse(text.str(), path.string(), overrides);
  if (!folder.empty()) document.tree_->folder = folder;
  std::error_code failed;
  const std::filesystem::perms mode = std::filesystem::status(path, failed).permissions();
  if (!failed && (mode & std::filesystem::perms::others_read) == std::filesystem::perms::none)
    document.tree_->origin.is_private = true;
  return document;
}

ConfigDocument ConfigDocument::outline() {
  auto tree = std::make_unique<internal::ConfigTree>();
  tree->name = "a run file";
  tree->root = std::make_unique<internal::ConfigValue>();
  tree->root->kind = ConfigNode::Kind::kMap;
  tree->root->where = tree->name;
  tree->outline = std::make_unique<internal::ConfigOutline>();
  return ConfigDocument(std::move(tree));
}

const std::vector<ConfigKey>& ConfigDocument::keys() const { return tree_->outline->keys; }

ConfigDocument ConfigDocument::parse(const std::string& text, const std::string& name,
                                     std::span<const std::string> overrides) {
  auto tree = std::make_unique<internal::ConfigTree>();
  tree->name = name;
  const std::filesystem::path file = std::filesystem::absolute(name).lexically_normal();
  tree->folder = file.parent_path();
  tree->origin = {name, file, sha256(std::as_bytes(std::span(text)))};
  tree->root = internal::parse_yaml(text, name, "");
  if (!tree->root || tree->root->kind == ConfigNode::Kind::kNull)
    throw_error(ErrorCode::kInvalidConfig,
                "{}:1:1: the document is empty; expected 'key: value' lines", name);
  if (tree->root->kind != ConfigNode::Kind::kMap)
    throw_error(ErrorCode::kInvalidConfig, "{}: expected 'key: value' lines at the top level",
                tree->root->where);
  internal::restore_from_resolved(*tree);
  for (const std::string& assignment : overrides) internal::apply_override(*tree, assignment);
  internal::assign_paths(*tree->root, "");
  return ConfigDocument(std::move(tree));
}

namespace {
void collect_keys(const internal::ConfigValue& value, const std::string& where,
                  std::vector<std::string>& keys) {
  if (value.where == where && !value.path.empty()) keys.push_back(value.path);
  for (const internal::ConfigValue::MapMember& member : value.members) {
    if (member.where == where && member.value->where != where) keys.push_back(member.value->path);
    collect_keys(*member.value, where, keys);
  }
  for (const auto& element : value.elements) collect_keys(*element, where, keys);
}

template <typename Visit>
void visit_values(internal::ConfigValue& value, const Visit& visit) {
  visit(value);
  for (internal::ConfigValue::MapMember& member : value.members) visit_values(*member.value, visit);
  for (const auto& element : value.elements) visit_values(*element, visit);
}
}  // namespace

const ConfigOrigin& ConfigDocument::origin() const { return tree_->origin; }

std::string ConfigDocument::resolved() const { return internal::write_resolved(*tree_); }

std::vector<ConfigDocument::InputFileValue> ConfigDocument::input_files() const {
  std::vector<InputFileValue> files;
  visit_values(*tree_->root, [&](const internal::ConfigValue& value) {
    if (value.is_input_file) files.push_back({value.path, value.absolute});
  });
  return files;
}

void ConfigDocument::set_path(const std::string& key, const std::filesystem::path& path) {
  bool found = false;
  visit_values(*tree_->root, [&](internal::ConfigValue& value) {
    if (value.path != key || value.kind != ConfigNode::Kind::kScalar) return;
    value.text = value.absolute = std::filesystem::absolute(path).lexically_normal().string();
    value.quoted = true;
    found = true;
  });
  WEFT_CHECK(found, "{} is not a value of {}", key, tree_->name);
}

std::vector<std::string> ConfigDocument::keys_at(const std::string& where) const {
  std::vector<std::string> keys;
  collect_keys(*tree_->root, where, keys);
  return keys;
}

ConfigNode ConfigDocument::root() const { return ConfigNode(tree_.get(), tree_->root.get()); }

bool ConfigDocument::try_section(const std::function<void()>& read_section) const {
  try {
    read_section();
    return true;
  } catch (const internal::OutlineSectionEnd&) {
    return true;
  } catch (...) {
    if (tree_->outline) throw;
    root().record_current_error("");
    return false;
  }
}

void ConfigDocument::finish() const { root().finish(); }

}  // namespace weft

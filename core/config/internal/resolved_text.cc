#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <sstream>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/config/internal/config_tree.h"

namespace weft::internal {
namespace {

constexpr std::string_view kSection = "resolved";
constexpr std::string_view kSet = "command line: --set ";
constexpr std::size_t kFlowColumns = 80;

/// Returns true for a character that has no meaning in YAML.
bool is_plain_character(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '.' || c == '+' || c == '-' || c == '/';
}

/// Returns true for text that is a valid unquoted YAML scalar in every position.
bool is_plain(const std::string& text) {
  if (text.empty() || text == "null" || text == "Null" || text == "NULL") return false;
  if (text.starts_with("---") || text.starts_with("...") || text == "-") return false;
  return std::all_of(text.begin(), text.end(), is_plain_character);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += fmt::format("\\{}", c);
    else if (c == '\n') result += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else result += c;
  }
  return result + "\"";
}

std::string plain_or_quoted(const std::string& text) {
  return is_plain(text) ? text : quoted(text);
}

std::string scalar_text(const ConfigValue& value) {
  if (value.kind == ConfigNode::Kind::kNull) return "null";
  if (!value.absolute.empty()) return quoted(value.absolute);
  // Quotes change the meaning only of numbers and booleans, which are plain.
  return value.quoted ? quoted(value.text) : plain_or_quoted(value.text);
}

bool is_collection(const ConfigValue& value) {
  return value.kind == ConfigNode::Kind::kMap || value.kind == ConfigNode::Kind::kList;
}

/// Returns "{name: worker0, devices: 2}", or nullopt if the collection contains collections.
std::optional<std::string> flow_text(const ConfigValue& value) {
  const bool is_map = value.kind == ConfigNode::Kind::kMap;
  std::string text;
  for (const ConfigValue::MapMember& member : value.members) {
    if (is_collection(*member.value)) return std::nullopt;
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", plain_or_quoted(member.key),
                        scalar_text(*member.value));
  }
  for (const auto& element : value.elements) {
    if (is_collection(*element)) return std::nullopt;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", scalar_text(*element));
  }
  return is_map ? "{" + text + "}" : "[" + text + "]";
}

void write_block(const ConfigValue& value, std::size_t indent, std::string& out);

/// Writes the part after "key:" or "-".
void write_value(const ConfigValue& value, std::size_t indent, std::string& out) {
  if (!is_collection(value)) {
    out += " " + scalar_text(value) + "\n";
    return;
  }
  const bool is_empty = value.members.empty() && value.elements.empty();
  if (const auto flow = flow_text(value);
      flow && (is_empty || indent + flow->size() < kFlowColumns)) {
    out += " " + *flow + "\n";
    return;
  }
  out += "\n";
  write_block(value, indent + 2, out);
}

void write_block(const ConfigValue& value, std::size_t indent, std::string& out) {
  const std::string blanks(indent, ' ');
  for (const ConfigValue::MapMember& member : value.members) {
    out += blanks + plain_or_quoted(member.key) + ":";
    write_value(*member.value, indent, out);
  }
  for (const auto& element : value.elements) {
    out += blanks + "-";
    write_value(*element, indent, out);
  }
}

std::string write_body(const ConfigValue& root) {
  std::string body;
  write_block(root, 0, body);
  return body;
}

std::string digest_of(const std::string& body) {
  return sha256(std::as_bytes(std::span(body))).substr(0, 32);
}

/// Encodes places as "12:3", "s0" for the first element of `sets`, or "-" if unknown.
class PlaceWriter final {
 public:
  explicit PlaceWriter(const ConfigTree& tree) : prefix_(tree.name + ":") { add(*tree.root, "-"); }

  std::string text() const { return text_; }
  const std::vector<std::string>& sets() const { return sets_; }

 private:
  void add(const ConfigValue& value, const std::string& key_place) {
    const bool has_line = std::all_of(value.path.begin(), value.path.end(),
                                      [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
    if (has_line)
      text_ += fmt::format("    {} {} {}\n", key_place, place(value.where),
                           value.path.empty() ? "." : value.path);
    for (const ConfigValue::MapMember& member : value.members)
      add(*member.value, place(member.where));
    for (const auto& element : value.elements) add(*element, "-");
  }

  std::string place(const std::string& where) {
    if (where.starts_with(kSet)) {
      const std::string assignment = where.substr(kSet.size());
      const auto known = std::find(sets_.begin(), sets_.end(), assignment);
      const std::size_t index = known - sets_.begin();
      if (known == sets_.end()) sets_.push_back(assignment);
      return fmt::format("s{}", index);
    }
    return where.starts_with(prefix_) ? where.substr(prefix_.size()) : "-";
  }

  const std::string prefix_;
  std::string text_;
  std::vector<std::string> sets_;
};

std::string list_text(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + quoted(item);
  return "[" + text + "]";
}

void add_input_files(const ConfigValue& value, std::vector<std::string>& keys) {
  if (value.is_input_file) keys.push_back(value.path);
  for (const ConfigValue::MapMember& member : value.members) add_input_files(*member.value, keys);
  for (const auto& element : value.elements) add_input_files(*element, keys);
}

/// The section `resolved` as read. Throws if a key is missing.
class Section final {
 public:
  explicit Section(const ConfigValue& value) : value_(value) {}

  std::string text(std::string_view key) const { return at(key).text; }
  std::vector<std::string> list(std::string_view key) const {
    std::vector<std::string> items;
    for (const auto& element : at(key).elements) items.push_back(element->text);
    return items;
  }

 private:
  const ConfigValue& at(std::string_view key) const {
    for (const ConfigValue::MapMember& member : value_.members)
      if (member.key == key) return *member.value;
    throw Error(ErrorCode::kInvalidConfig,
                fmt::format("{}: the section 'resolved', which `weft run` writes, lacks '{}': "
                            "remove the section, or start from the original file",
                            value_.where, key));
  }
  const ConfigValue& value_;
};

/// Places of a key and of its value, by path.
using PlacesByPath = std::map<std::string, std::pair<std::string, std::string>>;

PlacesByPath read_places(const std::string& text) {
  PlacesByPath places;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(' ');
    const auto second = first == std::string::npos ? first : line.find(' ', first + 1);
    if (second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    places[path == "." ? "" : path] = {line.substr(0, first),
                                       line.substr(first + 1, second - first - 1)};
  }
  return places;
}

struct OriginalPlaces {
  const PlacesByPath places;
  const std::vector<std::string> sets;
  const std::string name;
  const std::filesystem::path directory;  ///< Folder for resolving relative paths of --set.

  void set(const std::string& place, std::string& where) const {
    std::size_t index = 0;
    if (place.starts_with('s') && std::istringstream(place.substr(1)) >> index &&
        index < sets.size())
      where = std::string(kSet) + sets[index];
    else if (place != "-") where = name + ":" + place;
  }
  void apply(ConfigValue& value, std::string* key_where) const {
    if (const auto found = places.find(value.path); found != places.end()) {
      set(found->second.second, value.where);
      if (key_where != nullptr) set(found->second.first, *key_where);
      if (value.where.starts_with(kSet)) value.folder = directory;
    }
    for (ConfigValue::MapMember& member : value.members) apply(*member.value, &member.where);
    for (const auto& element : value.elements) apply(*element, nullptr);
  }
};

void mark_input_files(ConfigValue& value, const std::vector<std::string>& keys) {
  if (value.kind == ConfigNode::Kind::kScalar &&
      std::find(keys.begin(), keys.end(), value.path) != keys.end()) {
    value.absolute = value.text;
    value.is_input_file = true;
  }
  for (ConfigValue::MapMember& member : value.members) mark_input_files(*member.value, keys);
  for (const auto& element : value.elements) mark_input_files(*element, keys);
}

}  // namespace

std::string write_resolved(const ConfigTree& tree) {
  const std::string body = write_body(*tree.root);
  const PlaceWriter places(tree);
  std::vector<std::string> input_files;
  add_input_files(*tree.root, input_files);
  std::error_code ignored;
  return fmt::format(
      "# Written by `weft run` from {}: values of --set are applied, and paths are absolute.\n"
      "# All processes of the run read this file.\n"
      "{}"
      "# For messages: the original file, and where each value stands there.\n"
      "{}:\n"
      "  name: {}\n  file: {}\n  sha256: {}\n  private: {}\n  folder: {}\n  directory: {}\n"
      "  set: {}\n  input_files: {}\n  digest: {}\n  places: |\n{}",
      is_plain(tree.origin.name) ? tree.origin.name : quoted(tree.origin.name), body, kSection,
      quoted(tree.origin.name), quoted(tree.origin.file.string()), tree.origin.sha256,
      tree.origin.is_private, quoted(tree.folder.string()),
      quoted(std::filesystem::current_path(ignored).string()), list_text(places.sets()),
      list_text(input_files), digest_of(body), places.text());
}

void restore_from_resolved(ConfigTree& tree) {
  auto& members = tree.root->members;
  const auto found = std::find_if(members.begin(), members.end(),
                                  [](const auto& member) { return member.key == kSection; });
  if (found == members.end()) return;
  const std::unique_ptr<ConfigValue> value = std::move(found->value);
  members.erase(found);
  const Section section(*value);
  assign_paths(*tree.root, "");
  tree.folder = section.text("folder");
  mark_input_files(*tree.root, section.list("input_files"));
  if (digest_of(write_body(*tree.root)) != section.text("digest")) return;
  tree.origin = {section.text("name"), section.text("file"), section.text("sha256"),
                 section.text("private") == "true"};
  tree.name = tree.origin.name;
  OriginalPlaces{read_places(section.text("places")), section.list("set"), tree.name,
                 section.text("directory")}
      .apply(*tree.root, nullptr);
}

}  // namespace weft::internal

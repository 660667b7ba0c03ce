#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/config_node.h"
#include "core/config/config_origin.h"

namespace weft::internal {

/// Parsed value, owned by its parent; the root is owned by the tree.
struct ConfigValue {
  ConfigNode::Kind kind = ConfigNode::Kind::kNull;
  std::string text;     ///< content of a scalar
  bool quoted = false;  ///< true if in quotes: the scalar is then always a string
  std::string where;    ///< place of the value: "cluster.yaml:12:3"
  int order = 0;        ///< position in the document, by which problems are sorted
  std::string path;     ///< "pipeline.stages[1]"
  /// Folder for resolving a relative path; if empty, see ConfigNode::as_path().
  std::filesystem::path folder;
  /// Absolute path, if the value was read as a path.
  std::string absolute;
  /// True if a reader reads the content of the file at `absolute`.
  bool is_input_file = false;

  struct MapMember {
    std::string key;
    std::string where;  ///< place of the key
    int order = 0;
    bool was_read = false;     ///< true if the key was read
    bool is_excluded = false;  ///< true if the key was left to another reader
    std::unique_ptr<ConfigValue> value;
  };
  std::vector<MapMember> members;                      ///< members of a map, in file order
  std::vector<std::unique_ptr<ConfigValue>> elements;  ///< elements of a list
  /// keys that readers looked up, present or not
  std::vector<std::string> known_keys;

  MapMember* member(std::string_view key);
};

/// Recorded problem with a value.
struct RecordedProblem {
  int order = 0;
  std::string path;
  std::string message;
};

/// Exception that ends the reader of a section on an outline after it has read all its keys. The
/// code after finish() would need values.
struct OutlineSectionEnd {};

/// Keys that readers have looked up.
struct ConfigOutline {
  std::vector<ConfigKey> keys;
  std::vector<std::unique_ptr<ConfigValue>> values;  ///< Values behind the nodes of the outline.

  /// Returns the key with that path; adds one without description if missing.
  ConfigKey& key(const std::string& path);
};

struct ConfigTree {
  std::string name;
  std::filesystem::path folder;  ///< Folder for resolving relative paths.
  ConfigOrigin origin;
  std::unique_ptr<ConfigValue> root;
  std::vector<RecordedProblem> problems;
  std::unique_ptr<ConfigOutline> outline;  ///< Null unless the document is an outline.

  /// Records a problem unless the same message is already recorded.
  void record_problem(RecordedProblem problem);
  /// Records every key below `value` that was not read.
  void record_unread_keys(const ConfigValue& value);
  /// Throws the problems at or below `path` ("" for all), sorted.
  void throw_problems(std::string_view path);
};

/// Parses one YAML document. Places are "name:line:column", or `fixed_where` for every value if it
/// is not empty.
std::unique_ptr<ConfigValue> parse_yaml(const std::string& text, const std::string& name,
                                        const std::string& fixed_where);

/// Writes a tree as a self-contained run file: with --set applied and paths absolute. Its section
/// `resolved` stores the origin and the place of each value, for messages.
std::string write_resolved(const ConfigTree& tree);
/// Removes the section `resolved`, if there is one. Restores the origin, folders and places of the
/// original file from it; if values were edited since, places remain those of this file. Throws
/// Error(kInvalidConfig) if the section is damaged.
void restore_from_resolved(ConfigTree& tree);

/// Sets the paths of `value` and of all values below it.
void assign_paths(ConfigValue& value, const std::string& path);

std::string child_path(const std::string& parent, std::string_view key);

/// Applies one override, "key.path=value".
void apply_override(ConfigTree& tree, const std::string& assignment);

}  // namespace weft::internal

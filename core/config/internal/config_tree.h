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

/// A parsed value. Owned by its parent, the root by the tree.
struct ConfigValue {
  ConfigNode::Kind kind = ConfigNode::Kind::kNull;
  std::string text;     ///< of a scalar
  bool quoted = false;  ///< a scalar in quotes is a string, whatever it looks like
  std::string where;    ///< "cluster.yaml:12:3" of the value
  int order = 0;        ///< position in the document, for sorting problems
  std::string path;     ///< "pipeline.stages[1]"
  /// Folder from which a relative path counts; empty: see ConfigNode::as_path().
  std::filesystem::path folder;
  /// Absolute path, if a reader has asked for one.
  std::string absolute;
  /// A reader takes the content of the file at `absolute`.
  bool is_input_file = false;

  struct Member {
    std::string key;
    std::string where;  ///< of the key
    int order = 0;
    bool asked = false;      ///< somebody has read this key
    bool handed_on = false;  ///< somebody else will
    std::unique_ptr<ConfigValue> value;
  };
  std::vector<Member> members;                         ///< of a map, in the order of the file
  std::vector<std::unique_ptr<ConfigValue>> elements;  ///< of a list
  /// every key that was asked for, present or not
  std::vector<std::string> known_keys;

  Member* member(std::string_view key);
};

/// What is wrong with a value, where it will be told.
struct NotedProblem {
  int order = 0;
  std::string path;
  std::string message;
};

/// Ends the reader of a section that runs on the outline, when it has asked for all its keys: what
/// it would do with values comes after finish().
struct OutlineEnd {};

/// The keys that readers have asked for.
struct ConfigOutline {
  std::vector<ConfigKey> keys;
  std::vector<std::unique_ptr<ConfigValue>> values;  ///< What nodes stand for.

  /// The key of that path; a new one says nothing yet.
  ConfigKey& key(const std::string& path);
};

struct ConfigTree {
  std::string name;
  std::filesystem::path folder;  ///< From which paths count.
  ConfigOrigin origin;
  std::unique_ptr<ConfigValue> root;
  std::vector<NotedProblem> problems;
  std::unique_ptr<ConfigOutline> outline;  ///< Null of a document that was read.

  /// Keeps a problem unless the same message is there already.
  void note(NotedProblem problem);
  /// Notes every key below `value` that nobody has asked for.
  void note_unread(const ConfigValue& value);
  /// Throws the problems at or below `path` ("" for all), sorted.
  void throw_problems(std::string_view path);
};

/// Parses one YAML document. `where_prefix` empty: positions are "name:line:column"; otherwise
/// every position is that prefix.
std::unique_ptr<ConfigValue> parse_yaml(const std::string& text, const std::string& name,
                                        const std::string& fixed_where);

/// Writes a tree as a run file that stands by itself: values of --set applied, paths absolute. The
/// section `resolved` keeps the origin and the place of each value, for messages.
std::string write_resolved(const ConfigTree& tree);
/// Takes the section `resolved` out of a tree that has one: origin, folders and places become those
/// of the original file. Throws Error(kInvalidConfig) if the section is damaged. If other values
/// were edited since, they keep their places in this file.
void take_resolved(ConfigTree& tree);

/// Sets the paths of `value` and all below it.
void assign_paths(ConfigValue& value, const std::string& path);

std::string child_path(const std::string& parent, std::string_view key);

/// Applies one "key.path=value".
void apply_override(ConfigTree& tree, const std::string& assignment);

}  // namespace weft::internal

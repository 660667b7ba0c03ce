#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/config/config_node.h"
#include "core/config/config_origin.h"

namespace weft {

/// YAML document, parsed strictly: duplicate keys, recursive aliases, explicit tags and further
/// documents are errors. Every value has its line and column. All errors are Error(kInvalidConfig).
///
/// Nodes borrow from the document. Not thread-safe.
///
///   auto document = ConfigDocument::load("cluster.yaml", {"training.steps=10"});
///   document.try_section([&] { cluster = parse_cluster(document.root().at("cluster")); });
///   document.try_section([&] { training = parse_training(document.root().at("training")); });
///   // throws every problem of all sections, and every key that was not read
///   document.finish();
class ConfigDocument {
 public:
  /// Loads a file. `overrides` are the values of --set, "key.path=value". The value is YAML ("3",
  /// "[worker0]", "{data: 2}"); a number in the path is a list index ("cluster.hosts.0.devices=4").
  /// Missing maps in the path are created. Relative paths are resolved against `folder`, or against
  /// the file's folder if it is empty. Set `folder` for a copy of a file of another folder.
  static ConfigDocument load(const std::filesystem::path& path,
                             std::span<const std::string> overrides = {},
                             const std::filesystem::path& folder = {});
  /// Parses text. `name` replaces the file name in messages, and its folder resolves relative
  /// paths.
  static ConfigDocument parse(const std::string& text, const std::string& name,
                              std::span<const std::string> overrides = {});

  /// Returns a document that stands for all run files, to collect keys: readers find every section,
  /// and the keys that they read are recorded. See keys_read_by().
  static ConfigDocument outline();

  ConfigDocument(ConfigDocument&&) noexcept;
  ConfigDocument& operator=(ConfigDocument&&) noexcept;
  ~ConfigDocument();

  /// Returns the file behind the document; see resolved().
  const ConfigOrigin& origin() const;
  /// Returns this document as a self-contained file: with --set applied and each value read by
  /// ConfigNode::as_path() absolute. load() reads the same values from it, with the same places in
  /// messages.
  std::string resolved() const;
  /// Value that names a file whose content is read; see ConfigNode::as_input_file().
  struct InputFileValue {
    std::string key;  ///< "pipeline.schedule"
    std::filesystem::path file;
  };
  /// Returns the input files read so far, or read by the process that wrote a resolved document.
  std::vector<InputFileValue> input_files() const;
  /// Sets the path at `key`. The key must have a scalar value.
  void set_path(const std::string& key, const std::filesystem::path& path);

  ConfigNode root() const;
  /// Returns the paths of the keys and values at the place "FILE:LINE:COLUMN", outermost first.
  std::vector<std::string> keys_at(const std::string& where) const;
  /// Returns the recorded keys of an outline.
  const std::vector<ConfigKey>& keys() const;
  /// Runs `read_section`. Keeps an Error(kInvalidConfig) for finish() and returns false then.
  bool try_section(const std::function<void()>& read_section) const;
  /// Throws all problems found so far, in file order, including all keys that were not read.
  void finish() const;

 private:
  explicit ConfigDocument(std::unique_ptr<internal::ConfigTree> tree);
  std::unique_ptr<internal::ConfigTree> tree_;
};

}  // namespace weft

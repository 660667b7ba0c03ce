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

/// One YAML document, read strictly: duplicate keys, aliases to themselves, explicit tags and
/// further documents are refused, and every value knows its line and column. All errors are
/// Error(kInvalidConfig).
///
/// Owned by whoever loads it; the nodes it hands out borrow from it. One thread at a time.
///
///   auto document = ConfigDocument::load("cluster.yaml", {"training.steps=10"});
///   document.attempt([&] { cluster = parse_cluster(document.root().at("cluster")); });
///   document.attempt([&] { training = parse_training(document.root().at("training")); });
///   // throws every problem of all sections, and every key that nobody has read
///   document.finish();
class ConfigDocument {
 public:
  /// `overrides` are the values of --set: "key.path=value", where the value is YAML ("3",
  /// "[worker0]", "{data: 2}") and a number in the path is an index into a list
  /// ("cluster.hosts.0.devices=4"). Missing maps on the way are made. `folder`: from which its
  /// paths count, where it is a copy of a file of another folder; empty: its own.
  static ConfigDocument load(const std::filesystem::path& path,
                             std::span<const std::string> overrides = {},
                             const std::filesystem::path& folder = {});
  /// The same from text; `name` stands for the file in messages, and its folder for that of paths.
  static ConfigDocument parse(const std::string& text, const std::string& name,
                              std::span<const std::string> overrides = {});

  /// A document that stands for all run files: readers find every section, and note the keys that
  /// they take. See keys_read_by().
  static ConfigDocument outline();

  ConfigDocument(ConfigDocument&&) noexcept;
  ConfigDocument& operator=(ConfigDocument&&) noexcept;
  ~ConfigDocument();

  /// Where the document comes from; see resolved().
  const ConfigOrigin& origin() const;
  /// Returns this document as a file that stands by itself: values of --set applied, and each value
  /// that was read by ConfigNode::as_path() absolute. load() reads the same values from it, with
  /// the same places in messages.
  std::string resolved() const;
  /// Value that names a file whose content its reader takes; see ConfigNode::as_input_file().
  struct InputFile {
    std::string key;  ///< "pipeline.schedule"
    std::filesystem::path file;
  };
  /// Input files that have been read, also by the process that has written a resolved document.
  std::vector<InputFile> input_files() const;
  /// Sets the path at `key`, which has a value that is a scalar.
  void set_path(const std::string& key, const std::filesystem::path& path);

  ConfigNode root() const;
  /// Paths of the keys and values that stand at "FILE:LINE:COLUMN", outermost first.
  std::vector<std::string> keys_at(const std::string& where) const;
  /// Of the outline: the keys that were asked for.
  const std::vector<ConfigKey>& keys() const;
  /// Runs `read_section`; an Error(kInvalidConfig) is kept for finish() instead of thrown. False if
  /// there was one.
  bool attempt(const std::function<void()>& read_section) const;
  /// Throws all problems noted so far, in the order of the file, and all keys that nobody has read.
  void finish() const;

 private:
  explicit ConfigDocument(std::unique_ptr<internal::ConfigTree> tree);
  std::unique_ptr<internal::ConfigTree> tree_;
};

}  // namespace weft

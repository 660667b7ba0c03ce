#pragma once

#include <functional>
#include <string>

#include "core/config/config_node.h"
#include "core/config/config_sections.h"

namespace weft::apps {

/// Reader of an app's own sections of a run file. Reports the problems of all sections, not only of
/// the first one that fails:
///
///   AppSections sections(root);
///   sections.read("model", [&] { shape_ = parse_gpt(root.at("model", "Sizes of the model")); });
///   sections.read("data", [&] {
///     if (const auto data = root.find("data", "What to train on")) data_ = parse_text_data(*data);
///   });
///   sections.finish();
class AppSections final {
 public:
  /// Borrows `root`.
  explicit AppSections(const ConfigNode& root) : root_(root), sections_(root) {}
  void read(const std::string& key, const std::function<void()>& parse) {
    root_.exclude_key(key);
    sections_.read(parse);
  }
  /// Throws Error(kInvalidConfig) with all problems found.
  void finish() const { sections_.finish(); }

 private:
  const ConfigNode& root_;
  ConfigSections sections_;
};

}  // namespace weft::apps

#pragma once

#include <functional>
#include <string>

#include "core/config/config_node.h"

namespace weft::apps {

/// Reads an app's own sections of a run file, so that each says all that is wrong with it, whether
/// or not another one is right:
///
///   AppSections sections(root);
///   sections.read("model", [&] { shape_ = parse_gpt(root.at("model")); });
///   sections.read("data", [&] {
///     if (root.has("data")) data_ = parse_text_data(root.at("data"));
///   });
///   sections.finish();
class AppSections final {
 public:
  /// Borrows `root`.
  explicit AppSections(const ConfigNode& root) : root_(root) {}
  void read(const std::string& key, const std::function<void()>& parse);
  /// Throws Error(kInvalidConfig) with all that was wrong.
  void finish() const;

 private:
  const ConfigNode& root_;
  std::string problems_;
};

}  // namespace weft::apps

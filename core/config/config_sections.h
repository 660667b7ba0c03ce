#pragma once

#include <functional>
#include <string>

#include "core/config/config_node.h"

namespace weft {

/// Reads sections of a configuration one after the other and collects the problems of all of them.
/// On an outline, each section is read up to its finish(). Not thread-safe.
class ConfigSections final {
 public:
  /// Borrows `root`.
  explicit ConfigSections(const ConfigNode& root) : root_(root) {}
  /// Runs `parse` and keeps the text of an Error(kInvalidConfig).
  void read(const std::function<void()>& parse);
  bool has_no_problems() const { return problems_.empty(); }
  /// Throws Error(kInvalidConfig) with all problems. On an outline, ends the reader.
  void finish() const;

 private:
  const ConfigNode& root_;
  std::string problems_;
};

}  // namespace weft

#pragma once

#include <functional>
#include <string>

#include "core/config/config_node.h"

namespace weft {

/// Reads parts of a configuration one after the other, so that each says all that is wrong with it,
/// whether or not another one is right. On the outline of a document each part is read until its
/// finish(). One thread at a time.
class ConfigSections final {
 public:
  /// Borrows `root`.
  explicit ConfigSections(const ConfigNode& root) : root_(root) {}
  /// Runs `parse`, and keeps the text of an Error(kInvalidConfig).
  void read(const std::function<void()>& parse);
  bool clean() const { return problems_.empty(); }
  /// Throws Error(kInvalidConfig) with all that was wrong. On an outline it ends the reader.
  void finish() const;

 private:
  const ConfigNode& root_;
  std::string problems_;
};

}  // namespace weft

#pragma once

#include <string>

namespace weft::actors {

/// Report of an app's check to `weft run`, which passes it on to the driver. A value.
struct CheckReport {
  /// True if a driver that is started again resumes from its earlier work; see
  /// AppMain::allow_restarts().
  bool restartable = false;
  /// Digest of the plan, by which the driver notices that its input has changed; empty: none.
  std::string plan_digest = {};

  std::string to_text() const;
  /// Inverse of to_text(). Without text, nothing is reported.
  static CheckReport parse(const std::string& text);
};

}  // namespace weft::actors

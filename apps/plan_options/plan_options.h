#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/launch/role_arguments.h"

namespace weft::apps {

/// Options of `weft plan` and `weft strategy` that an app's plan handler takes, see AppRun::more.
/// A value.
struct PlanOptions {
  static constexpr const char* kAllPrograms = "all";

  std::string programs = {};  ///< Device whose program to print, kAllPrograms, or empty.
  /// Mesh whose tensor splits to print; empty: all meshes; unset: none.
  std::optional<std::string> strategy = {};
  std::string layouts = {};  ///< Layouts to compare, such as "1d,3d"; or empty.
  std::string svg = {};      ///< File for a drawing of that comparison; or empty.

  std::vector<std::string> to_arguments() const;
  /// Inverse of to_arguments(). Ignores other arguments.
  static PlanOptions of(const actors::RoleArguments& arguments);
};

}  // namespace weft::apps

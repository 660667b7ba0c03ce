#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace weft {

/// One mistake in a configuration, for programs. A value.
struct ConfigProblem {
  /// Nothing for a value of --set, or where no place is known.
  std::optional<std::string> file;
  std::optional<int> line, column;     ///< From 1.
  std::optional<std::string> key;      ///< "pipeline.stages[1].mesh"
  std::string message;                 ///< Without the place.
  std::optional<std::string> nearest;  ///< What was probably meant.
};

/// The problems that an Error(kInvalidConfig) tells in its lines; keys are looked up in the file,
/// as `overrides` have changed it.
std::vector<ConfigProblem> problems_of(const Error& error, const std::filesystem::path& file,
                                       std::span<const std::string> overrides = {});

/// {"file": .., "valid": false, "problems": [{"file", "line", "column", "key", "message",
/// "nearest"}, ..]}, null where nothing is known.
std::string problems_json(const std::filesystem::path& file,
                          const std::vector<ConfigProblem>& problems);

}  // namespace weft

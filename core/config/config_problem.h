#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace weft {

/// Problem in a configuration, in machine-readable form.
struct ConfigProblem {
  /// File of the problem. Null for a value of --set, or if the place is unknown.
  std::optional<std::string> file;
  std::optional<int> line, column;     ///< Position, counted from 1.
  std::optional<std::string> key;      ///< "pipeline.stages[1].mesh"
  std::string message;                 ///< Text without the place.
  std::optional<std::string> nearest;  ///< Probably intended word.
};

/// Parses the lines of an Error(kInvalidConfig) into problems. Looks up keys in the file, with
/// `overrides` applied.
std::vector<ConfigProblem> problems_of(const Error& error, const std::filesystem::path& file,
                                       std::span<const std::string> overrides = {});

/// Returns {"file": .., "valid": false, "problems": [{"file", "line", "column", "key", "message",
/// "nearest"}, ..]}; unknown values are null.
std::string problems_json(const std::filesystem::path& file,
                          const std::vector<ConfigProblem>& problems);

}  // namespace weft

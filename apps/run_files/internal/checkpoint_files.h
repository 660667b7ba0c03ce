#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::apps {

inline constexpr std::string_view kCheckpointPrefix = "step-";
/// Prefix of partial checkpoints, which CheckpointStore removes.
inline constexpr std::string_view kUnfinishedPrefix = ".unfinished-";
/// Suffix of an older checkpoint of the same step while two renames replace it.
inline constexpr std::string_view kReplacedSuffix = ".replaced";
inline constexpr const char* kLatestLink = "latest";
inline constexpr const char* kDescriptionFile = "checkpoint.json";

/// Returns a folder name such as "step-00000100".
std::string checkpoint_name(std::int64_t step);

bool is_complete(const std::filesystem::path& checkpoint);

/// Returns the step in a checkpoint's name, or -1 if there is none.
std::int64_t step_of(const std::filesystem::path& checkpoint);

/// Lists the complete checkpoints of a folder, oldest first, each step once.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::apps {

inline constexpr std::string_view kCheckpointPrefix = "step-";
/// Removed when the next store opens the folder.
inline constexpr std::string_view kUnfinishedPrefix = ".unfinished-";
/// An older checkpoint of the same step, while the new one takes its place where two names cannot
/// be exchanged at once.
inline constexpr std::string_view kReplacedSuffix = ".replaced";
inline constexpr const char* kLatestLink = "latest";
inline constexpr const char* kDescriptionFile = "checkpoint.json";

/// "step-00000100".
std::string checkpoint_name(std::int64_t step);

bool is_complete(const std::filesystem::path& checkpoint);

/// The step that a complete checkpoint's name states.
std::int64_t step_of(const std::filesystem::path& checkpoint);

/// Complete checkpoints of a folder, the oldest first, each step once.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);

}  // namespace weft::apps

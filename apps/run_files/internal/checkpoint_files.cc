#include "apps/run_files/internal/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace weft::apps {
namespace fs = std::filesystem;

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("{}{:08}", kCheckpointPrefix, step);
}

bool is_complete(const fs::path& checkpoint) {
  std::error_code ignored;
  return fs::is_regular_file(checkpoint / kDescriptionFile, ignored);
}

std::int64_t step_of(const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  std::int64_t step = -1;
  if (name.starts_with(kCheckpointPrefix))
    std::from_chars(name.data() + kCheckpointPrefix.size(), name.data() + name.size(), step);
  return step;
}

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kCheckpointPrefix) || !is_complete(entry.path())) continue;
    // Skips a replaced checkpoint if the new one is complete.
    if (name.ends_with(kReplacedSuffix) &&
        is_complete(folder / name.substr(0, name.size() - kReplacedSuffix.size())))
      continue;
    found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace weft::apps

#pragma once

#include <filesystem>
#include <optional>

namespace weft {

/// The control group that accounts for the memory of this process (cgroups(7)). A value.
struct MemoryGroup {
  int version = 0;               ///< Of its hierarchy: 1 or 2.
  std::filesystem::path folder;  ///< "/sys/fs/cgroup/user.slice/user-1000.slice"
  std::filesystem::path top;     ///< The highest group that can be seen: where they are mounted.
};

/// Nothing where no memory controller is mounted, or the group cannot be seen. A group of version 2
/// may lack the controller; its files are then missing. `root` is "/", but for tests.
std::optional<MemoryGroup> own_memory_group(const std::filesystem::path& root = "/");

}  // namespace weft

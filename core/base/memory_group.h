#pragma once

#include <filesystem>
#include <optional>

namespace weft {

/// Control group that accounts for the memory of this process (cgroups(7)).
struct MemoryGroup {
  int version = 0;               ///< Version of the cgroup hierarchy: 1 or 2.
  std::filesystem::path folder;  ///< "/sys/fs/cgroup/user.slice/user-1000.slice"
  std::filesystem::path top;     ///< Mount point of the hierarchy, its highest visible group.
};

/// Returns the memory control group of this process. Nullopt if no memory controller is mounted or
/// the group is not visible. The files of a version 2 group without the memory controller are
/// missing. `root` differs from "/" in tests only.
std::optional<MemoryGroup> own_memory_group(const std::filesystem::path& root = "/");

}  // namespace weft

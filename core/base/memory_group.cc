#include "core/base/memory_group.h"

#include <fstream>
#include <sstream>
#include <string>

namespace weft {
namespace fs = std::filesystem;
namespace {

/// Returns true if a comma-separated list contains `word`: "cpu,memory" contains "memory".
bool list_contains(const std::string& words, const std::string& word) {
  return ("," + words + ",").find("," + word + ",") != std::string::npos;
}

/// Returns the path of this process's group in a hierarchy, as the kernel names it: "/user.slice".
std::optional<std::string> own_group_path(const fs::path& root, int version) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "4:cpu,memory:/user.slice", "0::/user.slice"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool it = version == 2 ? line.starts_with("0::") : list_contains(controllers, "memory");
    if (it) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// Mount point of a hierarchy, and the group that is mounted there.
struct Mount {
  fs::path point;
  std::string group;  ///< "/", or a container's group
};
std::optional<Mount> find_mount(const fs::path& root, int version) {
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    // "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
    std::istringstream before(line);
    std::string ignored, group, point;
    before >> ignored >> ignored >> ignored >> group >> point;
    const auto separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    std::istringstream after(line.substr(separator + 3));
    std::string type, source, options;
    after >> type >> source >> options;
    const bool it =
        version == 2 ? type == "cgroup2" : type == "cgroup" && list_contains(options, "memory");
    if (it) return Mount{root / fs::path(point).relative_path(), group};
  }
  return std::nullopt;
}

std::optional<MemoryGroup> find_group(const fs::path& root, int version) {
  const auto place = own_group_path(root, version);
  const auto mount = find_mount(root, version);
  if (!place || !mount) return std::nullopt;
  std::string below = *place;
  if (mount->group != "/") {
    if (!(below + "/").starts_with(mount->group + "/")) return std::nullopt;
    below = below.substr(mount->group.size());
  }
  // the group belongs to another cgroup namespace
  if (below.find("/..") != std::string::npos) return std::nullopt;
  const fs::path relative = fs::path(below).relative_path();
  const fs::path folder = relative.empty() ? mount->point : mount->point / relative;
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) return std::nullopt;
  return MemoryGroup{version, folder, mount->point};
}

}  // namespace

std::optional<MemoryGroup> own_memory_group(const fs::path& root) {
  // A controller belongs to one hierarchy: if version 1 has it, version 2 does not.
  if (auto group = find_group(root, 1)) return group;
  return find_group(root, 2);
}

}  // namespace weft

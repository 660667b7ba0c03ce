#include "core/base/memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace weft {
namespace fs = std::filesystem;
namespace {

/// A file of one number; nothing where it is not there, or says "max".
std::optional<std::uint64_t> read_number(const fs::path& path) {
  std::ifstream in(path);
  std::uint64_t number = 0;
  if (!(in >> number)) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> available_to_machine(const fs::path& root) {
  std::ifstream in(root / "proc/meminfo");
  std::string name, unit;
  std::uint64_t kib = 0;
  while (in >> name >> kib) {
    if (name == "MemAvailable:") return kib << 10;
    std::getline(in, unit);
  }
  return std::nullopt;
}

/// What a control group's limit leaves, pages of files that it could give back included; nothing
/// without a limit.
std::optional<std::uint64_t> left_in(const fs::path& group) {
  const auto most = read_number(group / "memory.max"), used = read_number(group / "memory.current");
  if (!most || !used) return std::nullopt;
  std::uint64_t files = 0, value = 0;
  std::ifstream in(group / "memory.stat");
  for (std::string name; in >> name >> value;)
    if (name == "inactive_file") files = value;
  const std::uint64_t held = *used - std::min(files, *used);
  return *most - std::min(held, *most);
}

}  // namespace

std::optional<std::uint64_t> available_memory(const fs::path& root) {
  std::optional<std::uint64_t> least = available_to_machine(root);
  const auto take = [&](const std::optional<std::uint64_t>& other) {
    if (other) least = std::min(least.value_or(*other), *other);
  };
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("0::/")) continue;  // version 2 alone
    const fs::path groups = root / "sys/fs/cgroup";
    for (fs::path group = line.substr(4);; group = group.parent_path()) {
      take(left_in(groups / group));
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace weft

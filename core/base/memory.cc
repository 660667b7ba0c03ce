#include "core/base/memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

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

/// The number on the line that begins with `name`.
std::optional<std::uint64_t> read_line(const fs::path& path, std::string_view name) {
  std::ifstream in(path);
  std::string first, rest;
  while (in >> first) {
    std::uint64_t number = 0;
    if (first == name && in >> number) return number;
    in.clear();
    std::getline(in, rest);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> available_to_machine(const fs::path& root) {
  const auto kib = read_line(root / "proc/meminfo", "MemAvailable:");
  return kib ? std::optional(*kib << 10) : std::nullopt;
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

std::uint64_t peak_resident_bytes() {
  return read_line("/proc/self/status", "VmHWM:").value_or(0) << 10;
}

DiskBytes disk_bytes() {
  return {read_line("/proc/self/io", "read_bytes:").value_or(0),
          read_line("/proc/self/io", "write_bytes:").value_or(0)};
}

}  // namespace weft

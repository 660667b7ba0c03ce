#include "core/base/memory.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/memory_group.h"
#include "core/base/units.h"

namespace weft {
namespace fs = std::filesystem;
namespace {

/// Returns the number in a file. Nullopt if the file is missing or says "max".
std::optional<std::uint64_t> read_number(const fs::path& path) {
  std::ifstream in(path);
  std::uint64_t number = 0;
  if (!(in >> number)) return std::nullopt;
  return number;
}

/// Returns the number on the line that begins with `name`.
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

std::optional<std::uint64_t> limit_of_group(const fs::path& group, int version) {
  return read_number(group / (version == 2 ? "memory.max" : "memory.limit_in_bytes"));
}

/// Returns the bytes left below a control group's limit. Inactive file pages count as free, as the
/// kernel can reclaim them. Nullopt if there is no limit.
std::optional<std::uint64_t> available_in_group(const fs::path& group, int version) {
  const bool second = version == 2;
  const auto most = limit_of_group(group, version);
  const auto used = read_number(group / (second ? "memory.current" : "memory.usage_in_bytes"));
  if (!most || !used) return std::nullopt;
  const std::string wanted = second ? "inactive_file" : "total_inactive_file";
  std::uint64_t files = 0, value = 0;
  std::ifstream in(group / "memory.stat");
  for (std::string name; in >> name >> value;)
    if (name == wanted) files = value;
  const std::uint64_t held = *used - std::min(files, *used);
  return *most - std::min(held, *most);
}

/// Returns this process's memory group and the groups around it, each with its version.
std::vector<std::pair<fs::path, int>> own_groups(const fs::path& root) {
  std::vector<std::pair<fs::path, int>> groups;
  const auto own = own_memory_group(root);
  if (!own) return groups;
  for (fs::path group = own->folder;; group = group.parent_path()) {
    groups.emplace_back(group, own->version);
    if (group == own->top || !group.has_relative_path()) return groups;
  }
}

}  // namespace

std::optional<std::uint64_t> available_data(const fs::path& root) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  std::ifstream in(root / "proc/self/statm");
  // all in pages
  std::uint64_t size = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  if (!(in >> size >> resident >> shared >> text >> library >> data)) return std::nullopt;
  const std::uint64_t held = data * ::sysconf(_SC_PAGESIZE);
  return limit.rlim_cur - std::min<std::uint64_t>(held, limit.rlim_cur);
}

std::optional<std::uint64_t> available_memory(const fs::path& root) {
  const auto shared = available_shared_memory(root);
  const auto data = available_data(root);
  if (!shared || !data) return shared ? shared : data;
  return std::min(*shared, *data);
}

std::optional<std::uint64_t> available_shared_memory(const fs::path& root) {
  std::optional<std::uint64_t> least = available_to_machine(root);
  const auto take = [&](const std::optional<std::uint64_t>& other) {
    if (other) least = std::min(least.value_or(*other), *other);
  };
  for (const auto& [group, version] : own_groups(root)) take(available_in_group(group, version));
  return least;
}

std::uint64_t total_memory(const fs::path& root) {
  std::optional<std::uint64_t> least;
  if (const auto kib = read_line(root / "proc/meminfo", "MemTotal:")) least = *kib << 10;
  for (const auto& [group, version] : own_groups(root))
    if (const auto limit = limit_of_group(group, version))
      least = std::min(least.value_or(*limit), *limit);
  return least.value_or(0);
}

std::uint64_t peak_resident_bytes() {
  return read_line("/proc/self/status", "VmHWM:").value_or(0) << 10;
}

DiskBytes disk_bytes() {
  return {read_line("/proc/self/io", "read_bytes:").value_or(0),
          read_line("/proc/self/io", "write_bytes:").value_or(0)};
}

void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

void throw_out_of_memory(std::size_t bytes, std::string_view for_what) {
  std::string why;
  try {
    if (const std::new_handler handler = std::get_new_handler()) handler();
  } catch (const std::bad_alloc& error) {
    why = fmt::format(": {}", error.what());
  }
  throw_error(ErrorCode::kResourceExhausted, "the host has no {} of memory left for {}{}",
              format_bytes(bytes), for_what, why);
}

}  // namespace weft

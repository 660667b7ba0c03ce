#include "actors/agent/program_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "actors/agent/binary_hashes.h"
#include "core/base/error.h"
#include "core/base/folder.h"

namespace weft::actors {
namespace fs = std::filesystem;
namespace {

/// Limit of bytes copied for a program. A bundle with CUDA's libraries has several GiB.
constexpr std::uintmax_t kMaxCopiedBytes = std::uintmax_t{1} << 30;

/// Returns the files of a program, each with its path below the program's own folder: the
/// executable, and the libraries of lib/ beside its bin/.
std::vector<std::pair<fs::path, fs::path>> files_of(const fs::path& binary) {
  std::vector<std::pair<fs::path, fs::path>> files = {
      {binary, fs::path("bin") / binary.filename()}};
  const fs::path libraries = binary.parent_path().parent_path() / "lib";
  std::error_code failed;
  // Skips the lib/ of a system or an environment, which is not the program's.
  const bool is_ours = std::ranges::any_of(
      fs::directory_iterator(libraries, failed), [](const fs::directory_entry& entry) {
        return entry.path().filename().string().starts_with("libweft");
      });
  if (!is_ours) return files;
  for (fs::recursive_directory_iterator entry(libraries, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    // Processes open shared libraries only.
    const std::string name = entry->path().filename().string();
    if (entry->is_regular_file() && name.find(".so") != std::string::npos)
      files.emplace_back(entry->path(), "lib" / entry->path().lexically_relative(libraries));
  }
  return files;
}

/// Hard-links `from` at `to`, or copies it if that fails and `room` bytes for copies suffice.
void take(const fs::path& from, const fs::path& to, std::uintmax_t& room) {
  make_folders(to.parent_path());
  // Links the target itself: a link to a symbolic link would follow its later changes.
  const fs::path file = fs::canonical(from);
  std::error_code failed;
  fs::create_hard_link(file, to, failed);
  if (!failed) return;
  const std::uintmax_t size = fs::file_size(file);
  if (size > room)
    throw_error(ErrorCode::kResourceExhausted, "{} is too large for a copy", file.string());
  room -= size;
  fs::copy_file(file, to);
}

}  // namespace

ProgramCache::ProgramCache(fs::path folder, fs::path hashes)
    : folder_(std::move(folder)), hashes_(std::move(hashes)) {}

fs::path ProgramCache::place_of(const std::string& sha256) const {
  return folder_ / sha256.substr(0, 16);
}

std::optional<fs::path> ProgramCache::find(const std::string& name,
                                           const std::string& sha256) const {
  if (folder_.empty()) return std::nullopt;
  const fs::path kept = place_of(sha256) / "bin" / name;
  std::error_code failed;
  if (!fs::exists(kept, failed) || ::access(kept.c_str(), X_OK) != 0) return std::nullopt;
  if (binary_sha256(kept, hashes_) != sha256) return std::nullopt;
  return kept;
}

fs::path ProgramCache::keep(const fs::path& binary, const std::string& sha256) const {
  if (folder_.empty()) return binary;
  if (const auto kept = find(binary.filename().string(), sha256)) return *kept;
  const fs::path place = place_of(sha256);
  const fs::path building = place.string() + fmt::format(".{}", ::getpid());
  std::error_code ignored;
  try {
    std::uintmax_t room = kMaxCopiedBytes;
    for (const auto& [from, to] : files_of(binary)) take(from, building / to, room);
    fs::rename(building, place, ignored);  // Fails if another process was faster.
    fs::remove_all(building, ignored);
    return find(binary.filename().string(), sha256).value_or(binary);
  } catch (const std::exception&) {
    fs::remove_all(building, ignored);
    return binary;
  }
}

void ProgramCache::remove() const {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

}  // namespace weft::actors

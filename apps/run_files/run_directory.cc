#include "apps/run_files/run_directory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/private_file.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

// Marks a run's folder. Locked while the run is active.
constexpr const char* kLockFile = ".weft-run";
constexpr const char* kOtherFolder = "choose another folder with --out";

bool lies_in(const fs::path& inner, const fs::path& outer) {
  const fs::path a = fs::weakly_canonical(inner);
  const fs::path b = fs::weakly_canonical(outer);
  return std::mismatch(b.begin(), b.end(), a.begin(), a.end()).first == b.end();
}

/// Returns PATH.n with the first free n.
fs::path aside_name(const fs::path& path) {
  for (int n = 1;; ++n) {
    fs::path candidate = path;
    candidate += "." + std::to_string(n);
    if (!fs::exists(fs::symlink_status(candidate))) return candidate;
  }
}

/// Returns true if a run has written anything to `path` but the logs, events and inputs of its
/// start.
bool results_in(const fs::path& path) {
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename();
    if (name == kLockFile || name == "logs" || name == "events.jsonl" || name == "run.yaml" ||
        name == "inputs" || name == "state")
      continue;
    std::error_code unreadable;
    if (!fs::is_empty(entry.path(), unreadable)) return true;
  }
  return false;
}

/// Moves the folder of a run without results to PATH.failed and replaces an earlier one there.
fs::path set_aside_failed(const fs::path& path) {
  fs::path failed = path;
  failed += ".failed";
  // Keeps an earlier folder that has results or belongs to an active run.
  if (fs::exists(failed / kLockFile) && !results_in(failed) &&
      FileLock::try_acquire(failed / kLockFile))
    fs::remove_all(failed);
  if (fs::exists(fs::symlink_status(failed))) failed = aside_name(failed);
  fs::rename(path, failed);
  return failed;
}

}  // namespace

bool RunDirectory::has_results() const { return results_in(path_); }

std::optional<fs::path> RunDirectory::restore_earlier_run() {
  if (!moved_aside_) return std::nullopt;
  const fs::path failed = set_aside_failed(path_);
  fs::rename(*moved_aside_, path_);
  moved_aside_.reset();
  return failed;
}

RunDirectory RunDirectory::prepare(const fs::path& given,
                                   const std::optional<fs::path>& resume_from) {
  fs::path path = fs::absolute(given).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  const fs::path lock = path / kLockFile;
  std::optional<fs::path> moved;
  if (fs::exists(path)) {
    if (!fs::is_directory(path))
      throw_error(ErrorCode::kAlreadyExists,
                  "{} is a file; a run needs a folder: choose another with --out", path.string());
    check_trusted_owner(path, kOtherFolder);
    if (fs::exists(lock)) {
      std::optional<FileLock> taken = FileLock::try_acquire(lock);
      if (!taken)
        throw_error(
            ErrorCode::kAlreadyExists,
            "another run is writing to {}: wait for it, or choose another folder with --out",
            path.string());
      if (resume_from && lies_in(*resume_from, path)) return RunDirectory(path, std::move(taken));
      if (results_in(path)) {
        moved = aside_name(path);
        fs::rename(path, *moved);
      } else {
        set_aside_failed(path);
      }
    } else if (!fs::is_empty(path)) {
      throw_error(ErrorCode::kAlreadyExists,
                  "{} contains files that are not a run's; empty the folder or choose another one "
                  "with --out",
                  path.string());
    }
  }
  make_folders(path, kOtherFolder);
  check_trusted_owner(path, kOtherFolder);
  std::optional<FileLock> taken = FileLock::try_acquire(lock);
  if (!taken)
    throw_error(ErrorCode::kAlreadyExists, "another run has just started in {}", path.string());
  RunDirectory directory(path, std::move(taken));
  directory.moved_aside_ = std::move(moved);
  make_folders(directory.checkpoints(), kOtherFolder);
  make_folders(directory.logs(), kOtherFolder);
  return directory;
}

RunDirectory RunDirectory::open(const fs::path& path) {
  if (!fs::is_directory(path))
    throw_error(ErrorCode::kNotFound, "there is no folder {}; start runs with `weft run`",
                path.string());
  RunDirectory directory(fs::absolute(path).lexically_normal(), std::nullopt);
  make_folders(directory.checkpoints(), kOtherFolder);
  make_folders(directory.logs(), kOtherFolder);
  return directory;
}

fs::path RunDirectory::next_abandoned_folder() const { return aside_name(path_ / "abandoned"); }

}  // namespace weft::apps

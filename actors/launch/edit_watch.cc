#include "actors/launch/edit_watch.h"

#include <sys/stat.h>

#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::actors {
namespace {

constexpr int kRemovedAfter = 2;

}  // namespace

EditWatch::EditWatch(const std::vector<ReadFile>& files) {
  for (const ReadFile& file : files) files_.push_back({file});
}

std::vector<std::string> EditWatch::poll_edits() {
  std::vector<std::string> changes;
  std::erase_if(files_, [&](Watched& watched) {
    std::string change = change_of(watched);
    if (change.empty()) return false;
    changes.push_back(watched.file.name + " " + change);
    return true;
  });
  return changes;
}

std::string EditWatch::change_of(Watched& watched) {
  struct stat status = {};
  if (::stat(watched.file.path.c_str(), &status) != 0)
    return ++watched.missed < kRemovedAfter ? "" : "was removed";
  watched.missed = 0;
  const std::int64_t modified =
      std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (modified == watched.modified && status.st_size == watched.size &&
      status.st_ino == watched.inode)
    return "";
  watched.modified = modified;
  watched.size = status.st_size;
  watched.inode = status.st_ino;
  try {
    return sha256_file(watched.file.path) == watched.file.sha256 ? "" : "was edited";
  } catch (const Error&) {
    return "";  // The file is being replaced.
  }
}

}  // namespace weft::actors

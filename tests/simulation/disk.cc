#include "tests/simulation/disk.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <new>
#include <span>
#include <utility>

#include "core/base/check.h"

namespace weft::simulation {
namespace {

Disk* disk_of_world = nullptr;

struct OpenFile {
  sqlite3_file base;
  std::shared_ptr<Disk::File>* file;
  int keeps_log = 0;  // SQLITE_FCNTL_PERSIST_WAL, which SQLite's own file system supports too
};
OpenFile& open_file(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file); }
Disk::File& data(sqlite3_file* file) { return **open_file(file).file; }

int close_file(sqlite3_file* file) {
  data(file).locks.erase(file);
  delete std::exchange(open_file(file).file, nullptr);
  return SQLITE_OK;
}

int read_file(sqlite3_file* file, void* into, int count, sqlite3_int64 offset) {
  const std::vector<char>& bytes = data(file).bytes;
  const auto begin = std::min<std::size_t>(offset, bytes.size());
  const auto got = std::min<std::size_t>(count, bytes.size() - begin);
  char* const to = static_cast<char*>(into);
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), got, to);
  std::fill(to + got, to + count, '\0');
  return got == static_cast<std::size_t>(count) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

void put(std::vector<char>& into, std::size_t offset, const std::vector<char>& bytes) {
  if (into.size() < offset + bytes.size()) into.resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), into.begin() + static_cast<std::ptrdiff_t>(offset));
}

int write_file(sqlite3_file* file, const void* from, int count, sqlite3_int64 offset) {
  Disk::File& of = data(file);
  if (disk_of_world->full() && of.bytes.size() < static_cast<std::size_t>(offset + count))
    return SQLITE_FULL;
  const char* bytes = static_cast<const char*>(from);
  Disk::File::Write write{static_cast<std::size_t>(offset), {bytes, bytes + count}};
  put(of.bytes, write.offset, write.bytes);
  of.unsynced.push_back(std::move(write));
  return SQLITE_OK;
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  Disk::File& of = data(file);
  of.bytes.resize(size);
  of.synced = of.bytes;  // a journalling file system syncs truncations
  of.unsynced.clear();
  return SQLITE_OK;
}

int sync_file(sqlite3_file* file, int) {
  if (disk_of_world->loses_syncs()) return SQLITE_OK;
  Disk::File& of = data(file);
  of.synced = of.bytes;
  of.unsynced.clear();
  return SQLITE_OK;
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
  *size = std::ssize(data(file).bytes);
  return SQLITE_OK;
}

int lock_file(sqlite3_file* file, int level) {
  Disk::File& of = data(file);
  for (const auto& [handle, lock] : of.locks) {
    if (handle == file) continue;
    const bool refused = level == SQLITE_LOCK_SHARED     ? lock.second >= SQLITE_LOCK_PENDING
                         : level == SQLITE_LOCK_RESERVED ? lock.second >= SQLITE_LOCK_RESERVED
                                                         : lock.second >= SQLITE_LOCK_SHARED;
    if (refused) return SQLITE_BUSY;
  }
  of.locks[file] = {disk_of_world->world().current_process(), level};
  return SQLITE_OK;
}

int unlock_file(sqlite3_file* file, int level) {
  if (level == SQLITE_LOCK_NONE) data(file).locks.erase(file);
  else data(file).locks[file] = {disk_of_world->world().current_process(), level};
  return SQLITE_OK;
}

int check_reserved(sqlite3_file* file, int* reserved) {
  *reserved = 0;
  for (const auto& [handle, lock] : data(file).locks)
    if (lock.second >= SQLITE_LOCK_RESERVED) *reserved = 1;
  return SQLITE_OK;
}

int control_file(sqlite3_file* file, int what, void* value) {
  if (what != SQLITE_FCNTL_PERSIST_WAL) return SQLITE_NOTFOUND;
  int& asked = *static_cast<int*>(value);  // -1: query only
  int& keeps_log = open_file(file).keeps_log;
  if (asked >= 0) keeps_log = asked;
  asked = keeps_log;
  return SQLITE_OK;
}
int sector_size(sqlite3_file*) { return 4096; }
int characteristics(sqlite3_file*) { return 0; }

// Version 1 has no shared memory, which a database in exclusive mode does not need.
const sqlite3_io_methods kMethods = {
    1,         close_file,  read_file,      write_file,   truncate_file, sync_file,       file_size,
    lock_file, unlock_file, check_reserved, control_file, sector_size,   characteristics, nullptr,
    nullptr,   nullptr,     nullptr,        nullptr,      nullptr};

int open_path(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* flags_out) {
  open_file(file) = {};
  auto& files = disk_of_world->files();
  const std::string name = path == nullptr ? "temporary" : path;
  auto found = files.find(name);
  if (found == files.end()) {
    if ((flags & SQLITE_OPEN_CREATE) == 0 || disk_of_world->full()) return SQLITE_CANTOPEN;
    found = files.emplace(name, std::make_shared<Disk::File>()).first;
  }
  open_file(file).file = new std::shared_ptr<Disk::File>(found->second);
  file->pMethods = &kMethods;
  if (flags_out != nullptr) *flags_out = flags;
  return SQLITE_OK;
}

int delete_path(sqlite3_vfs*, const char* path, int) {
  return disk_of_world->files().erase(path) == 1 ? SQLITE_OK : SQLITE_IOERR_DELETE_NOENT;
}

int access_path(sqlite3_vfs*, const char* path, int, int* there) {
  *there = disk_of_world->files().contains(path) ? 1 : 0;
  return SQLITE_OK;
}

int full_path(sqlite3_vfs*, const char* path, int room, char* into) {
  std::snprintf(into, room, "%s", path);
  return SQLITE_OK;
}

int randomness(sqlite3_vfs*, int count, char* into) {
  disk_of_world->world().fill_with_random(
      std::as_writable_bytes(std::span(into, static_cast<std::size_t>(count))));
  return count;
}

int sleep_for(sqlite3_vfs*, int microseconds) { return microseconds; }

int current_time(sqlite3_vfs*, double* days) {
  *days = 2'460'000 + in_seconds(disk_of_world->world().now().time_since_epoch()) / 86'400;
  return SQLITE_OK;
}

int last_error(sqlite3_vfs*, int, char*) { return 0; }

sqlite3_vfs& file_system() {
  static sqlite3_vfs vfs = {1,         sizeof(OpenFile), 4096,        nullptr,     "simulated",
                            nullptr,   open_path,        delete_path, access_path, full_path,
                            nullptr,   nullptr,          nullptr,     nullptr,     randomness,
                            sleep_for, current_time,     last_error,  nullptr,     nullptr,
                            nullptr,   nullptr};
  return vfs;
}

}  // namespace

Disk::Disk(World& world) : world_(world) {
  disk_of_world = this;
  WEFT_CHECK(::sqlite3_vfs_register(&file_system(), 1) == SQLITE_OK, "no file system");
}

Disk::~Disk() {
  ::sqlite3_vfs_unregister(&file_system());
  disk_of_world = nullptr;
}

void Disk::process_ended(ProcessNumber process) {
  for (auto& [path, file] : files_)
    std::erase_if(file->locks, [&](const auto& lock) { return lock.second.first == process; });
}

void Disk::lose_power(const std::string& part) {
  for (auto& [path, file] : files_) {
    if (path.find(part) == std::string::npos) continue;
    for (const File::Write& write : file->unsynced) {
      if (world_.chance(0.5)) continue;
      std::vector<char> bytes = write.bytes;
      if (world_.chance(0.3)) bytes.resize(world_.random(0, std::ssize(bytes)));
      put(file->synced, write.offset, bytes);
    }
    file->unsynced.clear();
    file->bytes = file->synced;
    file->locks.clear();
  }
}

}  // namespace weft::simulation

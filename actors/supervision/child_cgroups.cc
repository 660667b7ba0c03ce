#include "actors/supervision/child_cgroups.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <ranges>
#include <utility>
#include <vector>

#include "actors/supervision/proc_stat.h"
#include "core/base/error.h"

namespace weft::actors {
namespace fs = std::filesystem;
namespace {

/// Suffix of the group into which a process moves itself before it makes groups.
constexpr const char* kSelfLeafSuffix = ".self";

/// Upper bound, in bytes, of the batches in which the kernel charges memory to a group.
constexpr std::uint64_t kChargeBatchBytes = std::uint64_t{1} << 20;

/// Returns the value of the line "NAME VALUE"; 0 if there is none.
std::uint64_t field_of(const fs::path& file, const std::string& name) {
  std::ifstream in(file);
  std::string found;
  for (std::uint64_t value = 0; in >> found >> value;)
    if (found == name) return value;
  return 0;
}

std::uint64_t number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  in >> number;
  return number;
}

bool has_word(const fs::path& file, const std::string& word) {
  std::ifstream in(file);
  for (std::string found; in >> found;)
    if (found == word) return true;
  return false;
}

std::vector<pid_t> processes_in(const fs::path& group) {
  std::ifstream in(group / "cgroup.procs");
  std::vector<pid_t> found;
  for (pid_t pid = 0; in >> pid;) found.push_back(pid);
  return found;
}

/// Returns 0 or an error number, which control files report at the write.
int write_to(const fs::path& file, const std::string& text) {
  // Creates files in tests only: the kernel creates those of its groups.
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  const int error = ::write(fd, text.data(), text.size()) < 0 ? errno : 0;
  ::close(fd);
  return error;
}

std::vector<fs::path> groups_below(const fs::path& group) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(group, failed))
    if (entry.is_directory(failed)) found.push_back(entry.path());
  return found;
}

/// Removes the group and the groups below it, as far as they have no processes; rmdir() refuses
/// others.
void remove_empty(const fs::path& group) {
  for (const fs::path& below : groups_below(group)) remove_empty(below);
  ::rmdir(group.c_str());
}

void end_processes_in(const fs::path& group) {
  for (const fs::path& below : groups_below(group)) end_processes_in(below);
  for (const pid_t pid : processes_in(group))
    if (pid > 1) ::kill(pid, SIGKILL);  // 0: a process of another PID namespace.
}

bool descends_from(pid_t pid, pid_t ancestor) {
  while (pid > 1) {
    const auto stat = read_proc_stat(pid);
    if (!stat) return false;
    pid = stat->parent;
    if (pid == ancestor) return true;
  }
  return false;
}

/// Returns 0 or an error number. Repeats, as processes that fork meanwhile leave a child behind.
int move_all(const fs::path& from, const fs::path& to) {
  for (int round = 0; round < 10; ++round) {
    const std::vector<pid_t> pids = processes_in(from);
    if (pids.empty()) break;
    for (const pid_t pid : pids) {
      const int error = write_to(to / "cgroup.procs", std::to_string(pid));
      if (error != 0 && error != ESRCH) return error;
    }
  }
  return 0;
}

[[noreturn]] void cannot(const std::string& what, int error) {
  throw_error(ErrorCode::kUnavailable, "{}: {}", what, ::strerror(error));
}

}  // namespace

std::uint64_t oom_kills_in(const MemoryGroup& group) {
  if (group.version == 1) return field_of(group.folder / "memory.oom_control", "oom_kill");
  // Excludes groups below this one.
  return field_of(group.folder / "memory.events.local", "oom_kill");
}

std::uint64_t own_oom_kills() {
  const auto group = own_memory_group();
  return group ? oom_kills_in(*group) : 0;
}

std::uint64_t ChildCgroup::oom_kills() const {
  std::uint64_t kills = oom_kills_in(group_);
  // The child may have moved into its leaf.
  for (const fs::path& below : groups_below(group_.folder))
    if (below.string().ends_with(kSelfLeafSuffix))
      kills += oom_kills_in({group_.version, below, group_.top});
  return kills;
}

bool ChildCgroup::reached_its_cap() const {
  if (group_.version == 2) return field_of(group_.folder / "memory.events", "oom") > 0;
  // memory.failcnt does not help: newer kernels leave it at 0.
  for (const std::string counter : {"memory", "memory.memsw"}) {
    const std::uint64_t limit = number_in(group_.folder / (counter + ".limit_in_bytes"));
    const std::uint64_t most = number_in(group_.folder / (counter + ".max_usage_in_bytes"));
    if (limit != 0 && most + kChargeBatchBytes >= limit) return true;
  }
  return false;
}

bool ChildCgroup::remove() {
  if (group_.folder.empty()) return true;
  remove_empty(group_.folder);
  if (fs::exists(group_.folder)) {
    end_processes_in(group_.folder);
    return false;
  }
  group_.folder.clear();
  return true;
}

ChildCgroups::ChildCgroups(const fs::path& root) {
  const auto own = own_memory_group(root);
  if (!own) throw_error(ErrorCode::kUnavailable, "no cgroup memory controller was found");
  base_ = *own;
  const pid_t self = ::getpid();
  bool inside = false;
  for (const pid_t pid : processes_in(base_.folder)) inside = inside || pid == self;
  if (!inside)
    throw_error(ErrorCode::kUnavailable, "this process's control group is not the one at {}",
                base_.folder.string());
  std::error_code failed;
  const std::string space = fs::read_symlink(root / "proc/self/ns/pid", failed).string();
  const auto digits = space.find_first_of("0123456789");
  const auto stat = read_proc_stat(self);
  owner_ = fmt::format(
      "weft.{}.{}.{}.",
      digits == std::string::npos ? "0" : space.substr(digits, space.find(']') - digits), self,
      stat ? stat->start_ticks : 0);
  if (base_.version == 2) {
    // This process has made groups before, and is in its leaf.
    if (base_.folder.filename() == owner_ + "self") base_.folder = base_.folder.parent_path();
    else move_to_a_leaf();
  } else if (number_in(base_.folder / "memory.use_hierarchy") != 1) {
    // Limits of a group would not hold for the groups below it.
    throw_error(ErrorCode::kUnavailable,
                "{} is 0, so limits would not apply to nested control groups",
                (base_.folder / "memory.use_hierarchy").string());
  }
  find_leftovers();
  remove_leftovers();
}

fs::path ChildCgroups::name(const std::string& last) const {
  return base_.folder / (owner_ + last);
}

void ChildCgroups::move_to_a_leaf() {
  const fs::path& base = base_.folder;
  const std::string where = base.string();
  if (!has_word(base / "cgroup.controllers", "memory"))
    throw_error(ErrorCode::kUnavailable, "{} has no memory controller", where);
  // Only the root group has both processes and controllers of groups below it.
  if (has_word(base / "cgroup.subtree_control", "memory")) return;
  if (!fs::exists(base / "cgroup.type"))
    throw_error(ErrorCode::kUnavailable,
                "control group {} is the root group and does not delegate the memory controller",
                where);
  const pid_t self = ::getpid();
  const auto others = std::ranges::count_if(
      processes_in(base), [&](pid_t pid) { return pid != self && !descends_from(pid, self); });
  if (others != 0)
    throw_error(ErrorCode::kUnavailable,
                "{} other process{} in the control group {}; start Weft in a control group of its "
                "own: systemd-run --scope -p Delegate=yes",
                others, others == 1 ? " is" : "es are", where);
  const fs::path leaf = name("self");
  if (::mkdir(leaf.c_str(), 0755) != 0) cannot("cannot make " + leaf.string(), errno);
  int error = move_all(base, leaf);
  if (error == 0) error = write_to(base / "cgroup.subtree_control", "+memory");
  if (error == 0) return;
  move_all(leaf, base);
  ::rmdir(leaf.c_str());
  cannot("cannot delegate the memory controller of control group " + where, error);
}

void ChildCgroups::find_leftovers() {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(base_.folder, failed)) {
    const std::string found = entry.path().filename().string();
    unsigned long long space = 0, start = 0;
    int pid = 0, read = 0;
    if (std::sscanf(found.c_str(), "weft.%llu.%d.%llu.%n", &space, &pid, &start, &read) != 3 ||
        read == 0 || !owner_.starts_with(fmt::format("weft.{}.", space)))
      continue;
    const auto stat = read_proc_stat(pid);
    const bool lives = stat && stat->start_ticks == start;
    if (!lives) leftovers_.push_back(entry.path());
  }
}

void ChildCgroups::remove_leftovers() {
  std::erase_if(leftovers_, [](const fs::path& group) {
    remove_empty(group);
    return !fs::exists(group);
  });
}

ChildCgroup ChildCgroups::make(std::uint64_t bytes) {
  remove_leftovers();  // Removes those that are empty by now.
  fs::path folder;
  int error = EEXIST;  // Another launcher of this process may have taken the number.
  while (error == EEXIST) {
    folder = name(std::to_string(++last_));
    error = ::mkdir(folder.c_str(), 0755) == 0 ? 0 : errno;
  }
  if (error != 0) cannot("cannot make " + folder.string(), error);
  ChildCgroup made({base_.version, folder, base_.top});
  const std::string limit = std::to_string(bytes);
  if (bytes == 0) return made;
  // Optional files are missing where the system does not account for swap, or is old.
  const auto set = [&](const char* file, const std::string& value, bool optional) {
    const int refused = write_to(folder / file, value);
    if (refused != 0 && !(optional && !fs::exists(folder / file)))
      cannot("cannot write to " + (folder / file).string(), refused);
  };
  if (base_.version == 2) {
    set("memory.max", limit, false);
    set("memory.swap.max", "0", true);
    set("memory.oom.group", "1", true);
  } else {
    set("memory.limit_in_bytes", limit, false);
    set("memory.memsw.limit_in_bytes", limit, true);
  }
  return made;
}

}  // namespace weft::actors

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "actors/supervision/memory_cap.h"
#include "core/base/memory_group.h"

namespace weft::actors {

/// Returns how many processes of a control group the kernel has killed for lack of memory; 0 if
/// that cannot be read.
std::uint64_t oom_kills_in(const MemoryGroup& group);
/// Returns oom_kills_in() of the group of this process.
std::uint64_t own_oom_kills();

/// Control group of one child. One thread at a time.
class ChildCgroup final {
 public:
  explicit ChildCgroup(MemoryGroup group) : group_(std::move(group)) {}
  ChildCgroup(ChildCgroup&& other) noexcept : group_(std::exchange(other.group_, {})) {}
  ChildCgroup& operator=(ChildCgroup&& other) noexcept {
    std::swap(group_, other.group_);
    return *this;
  }
  ChildCgroup(const ChildCgroup&) = delete;
  ChildCgroup& operator=(const ChildCgroup&) = delete;
  ~ChildCgroup() { remove(); }

  /// Returns the file to which a process writes "0" to join the group.
  std::filesystem::path procs_file() const { return group_.folder / "cgroup.procs"; }
  /// Returns the OOM kills of the child, without those of groups that it has made for its own
  /// children.
  std::uint64_t oom_kills() const;
  /// Returns whether the group has reached its cap, so that the cap is the reason of an OOM kill.
  bool reached_its_cap() const;
  /// Removes the group, and groups that the child has made. Call it once the child is reaped. If
  /// other processes are left in it, sends them SIGKILL and returns false; call it again then.
  bool remove();

 private:
  MemoryGroup group_;
};

/// Factory of control groups for the children of this process: folders in the group that this
/// process is in, and nowhere else. One thread at a time.
///
/// Version 1 allows groups wherever the folder is writable. Version 2 allows processes in leaves
/// only: this process first moves into a leaf of its group, with all its descendants. It makes no
/// groups if other processes are in its group, such as the shell of a login session. A child that
/// makes groups itself therefore needs a group of its own.
///
///   SERVICE/                        where this process was started (Delegate=memory)
///   ├─ weft.4026531836.71.9120.self     this process, and children without caps (version 2)
///   ├─ weft.4026531836.71.9120.1        a child, memory.max
///   └─ weft.4026531836.71.9120.2        pid namespace, pid and start of this process, number
class ChildCgroups final {
 public:
  /// Removes groups of processes that have ended, at once or as soon as they are empty. Throws
  /// Error(kUnavailable) with the reason if no groups can be made. `root`: "/", except in tests.
  explicit ChildCgroups(const std::filesystem::path& root = "/");
  ChildCgroups(const ChildCgroups&) = delete;
  ChildCgroups& operator=(const ChildCgroups&) = delete;
  ~ChildCgroups() { remove_leftovers(); }

  CapKind kind() const {
    return base_.version == 2 ? CapKind::kControlGroupV2 : CapKind::kControlGroupV1;
  }
  /// Makes a group with a cap of `bytes`; 0: no cap, for a child that makes groups itself and must
  /// be alone in its group. Throws Error(kUnavailable).
  ChildCgroup make(std::uint64_t bytes);

 private:
  std::filesystem::path name(const std::string& last) const;
  void move_to_a_leaf();
  void find_leftovers();
  void remove_leftovers();

  MemoryGroup base_;
  std::string owner_;  ///< Prefix of group names: "weft.PID_NAMESPACE.PID.START."
  std::uint64_t last_ = 0;
  std::vector<std::filesystem::path> leftovers_;  // Groups of processes that have ended.
};

}  // namespace weft::actors

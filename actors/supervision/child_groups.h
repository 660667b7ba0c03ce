#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "actors/supervision/memory_cap.h"
#include "core/base/memory_group.h"

namespace weft::actors {

/// How often the kernel has killed in a control group because memory ended; 0 where that cannot be
/// read.
std::uint64_t oom_kills_in(const MemoryGroup& group);
/// The same of the group of this process.
std::uint64_t own_oom_kills();

/// The control group of one child. One thread at a time.
class ChildGroup final {
 public:
  explicit ChildGroup(MemoryGroup group) : group_(std::move(group)) {}
  ChildGroup(ChildGroup&& other) noexcept : group_(std::exchange(other.group_, {})) {}
  ChildGroup& operator=(ChildGroup&& other) noexcept {
    std::swap(group_, other.group_);
    return *this;
  }
  ChildGroup(const ChildGroup&) = delete;
  ChildGroup& operator=(const ChildGroup&) = delete;
  ~ChildGroup() { remove(); }

  /// Who writes "0" to that file is in the group.
  std::filesystem::path entrance() const { return group_.folder / "cgroup.procs"; }
  /// Of its child, not of groups that this one has made for its own children.
  std::uint64_t oom_kills() const;
  /// Its processes have come to the cap: where the kernel has killed, it was for that.
  bool reached_its_cap() const;
  /// Once its child is reaped, with the groups that that has made. False where others are in it:
  /// they get SIGKILL, and it can be called again.
  bool remove();

 private:
  MemoryGroup group_;
};

/// Makes control groups for the children of this process: folders in the group that this process is
/// in, and nowhere else. One thread at a time.
///
/// Version 1 allows that wherever the folder can be written to. Version 2 wants processes in leaves
/// alone: this process first moves into a leaf of its group, with all that descend from it; where
/// others are in the group (a login session has a shell), groups are not made. So a child that
/// makes groups itself needs one of its own.
///
///   SERVICE/                        where this process was started (Delegate=memory)
///   ├─ weft.4026531836.71.9120.self     this process, and children without caps (version 2)
///   ├─ weft.4026531836.71.9120.1        a child, memory.max
///   └─ weft.4026531836.71.9120.2        pid namespace, pid and start of this process, number
class ChildGroups final {
 public:
  /// Also removes the groups that processes which have ended have left there, as soon as they are
  /// empty. Throws Error(kUnavailable), saying why, where no groups can be made. `root` is "/", but
  /// for tests.
  explicit ChildGroups(const std::filesystem::path& root = "/");
  ChildGroups(const ChildGroups&) = delete;
  ChildGroups& operator=(const ChildGroups&) = delete;
  ~ChildGroups() { remove_leftovers(); }

  CapKind kind() const {
    return base_.version == 2 ? CapKind::kControlGroupV2 : CapKind::kControlGroupV1;
  }
  /// One with that cap, or without one (0), for a child that makes groups itself: it is alone
  /// there. Throws Error(kUnavailable).
  ChildGroup make(std::uint64_t bytes);

 private:
  std::filesystem::path name(const std::string& last) const;
  void move_to_a_leaf();
  void find_leftovers();
  void remove_leftovers();

  MemoryGroup base_;
  std::string owner_;  ///< "weft.PID_NAMESPACE.PID.START."
  std::uint64_t last_ = 0;
  std::vector<std::filesystem::path> leftovers_;  // of processes that have ended
};

}  // namespace weft::actors

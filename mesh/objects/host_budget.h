#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "core/base/thread.h"

namespace weft::mesh {

/// Memory that the objects of a host may take, counted over its processes.
///
/// The processes share a file with one slot each. A process locks its slot until it ends; slots
/// without a lock do not count. Any thread.
class HostBudget final {
 public:
  /// `path`: file that the processes of the host share, made if missing; empty: this process is
  /// alone. `limit`: bytes of all processes. `adopts`: takes the limit of those that use the file
  /// already, if any, so that all have the same one although it follows from the memory that was
  /// free when they began. Throws Error(kUnavailable) if the file cannot be used.
  HostBudget(const std::filesystem::path& path, std::uint64_t limit, bool adopts = false);
  ~HostBudget();
  HostBudget(const HostBudget&) = delete;
  HostBudget& operator=(const HostBudget&) = delete;

  std::uint64_t limit() const { return limit_; }
  /// Takes `bytes` if the limit allows it. Otherwise returns false.
  bool reserve(std::uint64_t bytes);
  void release(std::uint64_t bytes);
  /// Returns the bytes in use by this process.
  std::uint64_t used_here() const;
  /// Returns the bytes in use by all processes of the host.
  std::uint64_t used() const;
  /// Counts bytes that are in use but have no pages yet: the free memory of the system is still to
  /// give them. begin_writing() returns those of all processes, these included.
  std::uint64_t begin_writing(std::uint64_t bytes);
  void end_writing(std::uint64_t bytes);

 private:
  static constexpr std::size_t kSlots = 4096;
  /// Numbers of one process in the file.
  struct Slot {
    std::uint64_t used, unwritten;
  };
  /// Content of the file.
  struct Shared {
    Slot slots[kSlots];
    std::uint64_t limit;
  };
  Slot others() const;
  /// Copies own_ to the file.
  void publish();
  bool lock_all();
  void unlock_all();

  std::uint64_t limit_;  ///< Constant after the constructor.
  mutable Mutex mutex_;  // guards own_, and the slot of this process
  Slot own_{};
  int descriptor_ = -1;
  std::size_t slot_ = 0;
  volatile Shared* shared_ = nullptr;  ///< Shared memory; null: this process is alone.
};

}  // namespace weft::mesh

#pragma once

#include <cstdint>
#include <string>

#include "core/codec/codec.h"

namespace weft::actors {

/// Mechanism that holds a process to its cap.
enum class CapKind : std::uint8_t {
  kNone,
  /// Control group, version 2. Counts all memory that the process touches, shared memory and pages
  /// of files too. Beyond the cap the kernel reclaims what it can, and then kills.
  kControlGroupV2,
  kControlGroupV1,
  /// RLIMIT_DATA. Counts private writable memory, touched or not, and the stacks of threads. Does
  /// not count shared memory (System V segments either) and pages of files. Beyond the cap
  /// allocations fail.
  kDataLimit,
};
/// Returns "cgroup v2", "cgroup v1", "RLIMIT_DATA" or "none".
std::string to_string(CapKind kind);

/// Cap on the memory of one process (`cluster.memory`). A value that is sent in messages.
struct MemoryCap {
  std::uint64_t bytes = 0;  ///< 0: none
  CapKind kind = CapKind::kNone;
  std::string fallback_reason = {};  ///< Reason if no control group enforces the cap.

  /// Returns "256 MiB (cgroup v1)".
  std::string describe() const;

  friend bool operator==(const MemoryCap&, const MemoryCap&) = default;
  static constexpr auto fields =
      weft::fields(&MemoryCap::bytes, &MemoryCap::kind, &MemoryCap::fallback_reason);
};

/// Returns the cap of this process, which its parent has set in the environment.
MemoryCap own_memory_cap();
/// Returns "WEFT_MEMORY_CAP=...", for the environment of a child with that cap.
std::string to_environment(const MemoryCap& cap);

/// Makes failed allocations of this process name the cap of `label`: `new` throws a std::bad_alloc
/// with that text (std::set_new_handler). If nobody catches it, the text ends in the process's log.
/// Call it once. Does nothing unless the cap is RLIMIT_DATA, as allocations then fail for other
/// reasons.
void set_out_of_memory_message(const MemoryCap& cap, const std::string& label);

/// Returns whether a line says that memory ran out: the text above, "std::bad_alloc" or the like.
bool reports_out_of_memory(const std::string& line);

}  // namespace weft::actors

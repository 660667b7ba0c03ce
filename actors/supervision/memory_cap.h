#pragma once

#include <cstdint>
#include <string>

#include "core/codec/codec.h"

namespace weft::actors {

/// What holds a process to its cap.
enum class CapKind : std::uint8_t {
  kNone,
  /// Whatever the process touches counts, shared memory and pages of files too. Beyond it the
  /// kernel takes back what it can, and then kills.
  kControlGroupV2,
  kControlGroupV1,
  /// RLIMIT_DATA. Private memory that the process may write to counts, touched or not, with the
  /// stacks of its threads; shared memory (sysv segments too) and pages of files do not. Beyond it
  /// allocations fail.
  kDataLimit,
};
/// "cgroup v2", "RLIMIT_DATA".
std::string to_string(CapKind kind);

/// The cap on the memory of one process (`cluster.memory`). A value; travels.
struct MemoryCap {
  std::uint64_t bytes = 0;  ///< 0: none
  CapKind kind = CapKind::kNone;
  std::string note = {};  ///< Why it is no control group, where it is none.

  /// "256 MiB (cgroup v1)".
  std::string describe() const;

  friend bool operator==(const MemoryCap&, const MemoryCap&) = default;
  static constexpr auto fields =
      weft::fields(&MemoryCap::bytes, &MemoryCap::kind, &MemoryCap::note);
};

/// The cap of this process, as its parent has set it: it says so in the environment.
MemoryCap own_memory_cap();
/// "WEFT_MEMORY_CAP=...", for the environment of a child that has that cap.
std::string environment_of(const MemoryCap& cap);

/// From here on failed allocations of this process say what the cap of `label` is: `new` throws a
/// std::bad_alloc with that text (std::set_new_handler), which also the end of a process that does
/// not catch it leaves in its log. Call it once; nothing where the cap is no RLIMIT_DATA, as
/// allocations then fail for other reasons.
void name_cap_where_memory_ends(const MemoryCap& cap, const std::string& label);

/// What that text begins with, and other lines that say that memory has ended.
bool says_out_of_memory(const std::string& line);

}  // namespace weft::actors

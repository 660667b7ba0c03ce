#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::actors {

/// What /proc/PID/stat says about a process. Any thread.
struct ProcStat {
  char state = '?';
  pid_t parent = 0;
  /// PF_EXITING or PF_SIGNALED is set, or it is a zombie: it will never run again, though its
  /// memory may take seconds to free and sockets and pidfds tell only after that (about 80 ms per
  /// GiB).
  bool exiting = false;
  std::uint64_t start_ticks = 0;  ///< When it began, since the machine did: with its pid, its name.
  std::uint64_t rss_bytes = 0;
  int wait_status = 0;  ///< as of waitpid(), once exiting; 0 before
};

/// Nothing when there is no such process.
std::optional<ProcStat> read_proc_stat(pid_t pid);
/// Of one of its threads.
std::optional<ProcStat> read_thread_stat(pid_t pid, pid_t thread);
/// The same from the text of the file; exposed for its test.
std::optional<ProcStat> parse_proc_stat(std::string_view text);

/// All processes that there are.
std::vector<pid_t> process_ids();

}  // namespace weft::actors

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::actors {

/// Contents of /proc/PID/stat. Any thread.
struct ProcStat {
  char state = '?';
  pid_t parent = 0;
  /// True if PF_EXITING or PF_SIGNALED is set, or it is a zombie: it will never run again. Its
  /// memory may take seconds to free (about 80 ms per GiB), and sockets and pidfds report its end
  /// only after that.
  bool exiting = false;
  /// Start time in clock ticks since boot. Identifies a process together with its pid.
  std::uint64_t start_ticks = 0;
  std::uint64_t rss_bytes = 0;
  int wait_status = 0;  ///< Status as of waitpid() once exiting; 0 before.
};

/// Reads /proc/PID/stat. Returns nothing if there is no such process.
std::optional<ProcStat> read_proc_stat(pid_t pid);
/// Reads /proc/PID/task/THREAD/stat. Returns nothing if there is no such thread.
std::optional<ProcStat> read_thread_stat(pid_t pid, pid_t thread);
/// Parses the text of such a file. Exposed for its test.
std::optional<ProcStat> parse_proc_stat(std::string_view text);

/// Returns the numbers of all processes.
std::vector<pid_t> process_ids();

}  // namespace weft::actors

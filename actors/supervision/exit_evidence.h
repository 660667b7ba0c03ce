#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/supervision/memory_cap.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// What the text says of a process that UCX ended.
inline constexpr const char* kUcxStranger =
    " in UCX (something that does not speak UCX, a port scanner or a wrong address, has reached "
    "its data port, and UCX ends "
    "the process; let nobody else reach these ports: README, \"Who can reach a cluster\")";

/// What is known about why a process ended, or counts as ended because it is silent. A value;
/// written by the parent of the process, travels to every waiting caller. Without a parent (`known`
/// false) the only thing that can be said is "connection lost".
struct ExitEvidence {
  bool known = false;
  /// Of a process that lives, and with which nobody can work: "has been stopped (state T) for 10.2
  /// s". Empty: it has ended.
  std::string silence;
  std::int32_t signal = 0;  ///< that killed it, or 0
  std::int32_t status = 0;  ///< exit status, when no signal killed it
  bool core_dumped = false;
  std::int64_t pid = 0;
  std::uint64_t rss_bytes = 0;  ///< resident memory as last seen alive, 0 if never seen
  /// by how much the kernel's OOM counter grew meanwhile: that of its own control group, or else
  /// that of its parent's
  std::uint64_t oom_kills = 0;
  MemoryCap cap;         ///< on its memory
  bool at_cap = false;   ///< its control group has come to that cap
  std::string log_file;  ///< empty when its output was not kept
  /// Somebody has looked into it; without that, no last lines mean nothing.
  bool log_read = false;
  std::vector<std::string> last_lines;

  /// Fills in the last lines of the log; nothing where it cannot be read.
  void read_log();
  bool violent() const { return signal != 0; }
  bool orderly() const { return known && silence.empty() && signal == 0 && status == 0; }
  /// A crash, or an exit status of its own: nobody outside has ended it.
  bool failed_by_itself() const;
  /// What a process that failed by itself has failed of, without numbers that differ from one time
  /// to the next: "SIGABRT: ^terminate called after throwing ...". Empty for others.
  std::string fault() const;
  /// "SIGKILL, kernel OOM counter +1, rss 61.8 GiB", "SIGKILL by the kernel: out of memory, at its
  /// cap of 256 MiB (cluster.memory, cgroup v1), rss 255 MiB", "exit status 3", "connection lost";
  /// of a silent one the silence.
  std::string cause() const;
  /// "died: SIGKILL, rss 61.8 GiB", "has been stopped (state T) for 10.2 s".
  std::string verdict() const;
  /// "; log: runs/a/logs/front.0.log, which ends with:\n  | ..." or less where less is known.
  std::string log_note() const;

  friend bool operator==(const ExitEvidence&, const ExitEvidence&) = default;
  static constexpr auto fields = weft::fields(
      &ExitEvidence::known, &ExitEvidence::silence, &ExitEvidence::signal, &ExitEvidence::status,
      &ExitEvidence::core_dumped, &ExitEvidence::pid, &ExitEvidence::rss_bytes,
      &ExitEvidence::oom_kills, &ExitEvidence::cap, &ExitEvidence::at_cap, &ExitEvidence::log_file,
      &ExitEvidence::log_read, &ExitEvidence::last_lines);
};

/// The same text with "#" for each word that has a digit: times, process numbers, addresses.
std::string without_numbers(const std::string& text);

/// "SIGKILL" for 9, "signal 34" for one without a name.
std::string signal_name(int signal);

/// The last `lines` lines of a text file, each cut at 400 characters; nothing if it cannot be read.
/// Reads at most 32 KiB.
std::optional<std::vector<std::string>> last_lines_of(const std::string& path, std::size_t lines);

}  // namespace weft::actors

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/supervision/memory_cap.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Part of ExitReport::cause() for a process that UCX ended because of bytes of another protocol.
inline constexpr const char* kForeignUcxTraffic =
    " in UCX (a program that does not use UCX, a port scanner or one with a wrong address, "
    "connected to its data port, and UCX ended the process; block these ports for other programs: "
    "actors/docs/security.md)";

/// Reason why a process ended, or counts as ended because it is silent. A value that the parent of
/// the process creates and every waiting caller receives. Without a parent, `has_parent_report` is
/// false and the cause is "connection lost".
struct ExitReport {
  bool has_parent_report = false;
  /// Description of a process that lives but is unusable: "has not responded for 10.2 s: it is
  /// stopped (state T)". Empty: it has ended.
  std::string silence_text;
  std::int32_t signal = 0;  ///< Signal that killed it, or 0.
  std::int32_t status = 0;  ///< Exit status if no signal killed it.
  bool core_dumped = false;
  std::int64_t pid = 0;
  std::uint64_t rss_bytes = 0;  ///< Resident memory when last seen alive; 0: never seen.
  /// Increase of the kernel's OOM counter during its life: of its own control group, or else of its
  /// parent's group.
  std::uint64_t oom_kills = 0;
  MemoryCap cap;                    ///< Cap on its memory.
  bool reached_memory_cap = false;  ///< True if its control group reached that cap.
  std::string log_file;             ///< Empty if its output was not kept.
  /// True if the log was read. If false, empty `tail_lines` mean nothing.
  bool log_read = false;
  std::vector<std::string> tail_lines;

  /// Reads the last lines of the log. Sets `log_read` if the log can be read.
  void read_log();
  bool was_signalled() const { return signal != 0; }
  bool exited_cleanly() const {
    return has_parent_report && silence_text.empty() && signal == 0 && status == 0;
  }
  /// Returns whether the process crashed or exited with an error status, rather than being ended
  /// from outside.
  bool crashed() const;
  /// Returns the failure of a process that failed by itself, or "". Numbers, which differ between
  /// repetitions, become "#": "SIGABRT: ^terminate called after throwing ...".
  std::string crash_signature() const;
  /// Returns "SIGKILL, kernel OOM counter +1, rss 61.8 GiB", "SIGKILL by the kernel: out of memory,
  /// at its cap of 256 MiB (cluster.memory, cgroup v1), rss 255 MiB", "exit status 3", "connection
  /// lost", or `silence_text` if that is set.
  std::string cause() const;
  /// Returns "died: SIGKILL, rss 61.8 GiB", or `silence_text` if that is set.
  std::string summary() const;
  /// Returns "; log: runs/a/logs/front.0.log, which ends with:\n  | ...", or less if less is known.
  std::string log_note() const;

  friend bool operator==(const ExitReport&, const ExitReport&) = default;
  static constexpr auto fields = weft::fields(
      &ExitReport::has_parent_report, &ExitReport::silence_text, &ExitReport::signal,
      &ExitReport::status, &ExitReport::core_dumped, &ExitReport::pid, &ExitReport::rss_bytes,
      &ExitReport::oom_kills, &ExitReport::cap, &ExitReport::reached_memory_cap,
      &ExitReport::log_file, &ExitReport::log_read, &ExitReport::tail_lines);
};

/// Returns `text` with "#" for each word that has a digit: times, process numbers, addresses.
std::string mask_numbers(const std::string& text);

/// Returns "SIGKILL" for 9, "signal 34" for a signal without a name.
std::string signal_name(int signal);

/// Returns the last `lines` lines of a text file, each cut at 400 characters. Reads at most 32 KiB.
/// Returns nothing if the file cannot be read.
std::optional<std::vector<std::string>> last_lines_of(const std::string& path, std::size_t lines);

}  // namespace weft::actors

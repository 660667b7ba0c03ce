#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/memory_file.h"

namespace weft::actors {

/// Count of the deaths that a run has survived, and its limit: OTP's restart intensity.
///
/// One count for all processes of a run, in memory that `weft run` shares with its drivers and that
/// outlives them. A death that several of them report counts once. One thread at a time per
/// process; a lock excludes other processes.
class RestartBudget final {
 public:
  static constexpr std::size_t kMaxRestarts = 3;
  static constexpr Nanoseconds kWindow = std::chrono::minutes(10);

  /// Makes a new count. Throws Error(kResourceExhausted).
  explicit RestartBudget(std::size_t max_restarts = kMaxRestarts, Nanoseconds window = kWindow);
  /// Opens the count at `path`, a path() of the parent process. Makes a new one if `path` is empty
  /// or cannot be opened.
  RestartBudget(std::size_t max_restarts, Nanoseconds window, const std::string& path);
  RestartBudget(const RestartBudget&) = delete;
  RestartBudget& operator=(const RestartBudget&) = delete;
  ~RestartBudget();

  std::size_t max_restarts() const { return max_restarts_; }
  Nanoseconds window() const { return window_; }
  /// Returns a path by which another process can open this count. Valid while this object lives.
  std::string path() const;

  struct Death {
    /// Host and number of the process, "worker1 4121": one process dies once. Empty: unknown; each
    /// such death counts.
    std::string process_id_text = {};
    std::string cause = {};  ///< Description for people: "worker1 device 0 died: SIGKILL".
    /// ExitReport::crash_signature() of a process that failed by itself. Else empty.
    std::string crash_signature = {};
  };
  struct Decision {
    std::optional<std::size_t> restart =
        {};  ///< Restart number, 1 to max_restarts(); empty: none left.
    /// True if one crash signature has come twice without a finished step between, so that another
    /// restart would end alike. `restart` is empty then.
    bool repeated = false;
  };
  /// Counts a death, unless another process has counted it, and returns whether a restart is left.
  /// A death that was counted without its signature gets that of a later report.
  Decision record_death(const Death& death, TimePoint now);
  /// Records that the run has finished a step or a phase.
  void step_done();
  /// Returns the causes of the deaths within the last window(), oldest first.
  std::vector<std::string> causes(TimePoint now) const;
  /// Returns "X. The limit of restarts is reached (recovery.restarts: 3 within 10 min); ...", or
  /// the text for `repeated`.
  std::string refusal(const std::string& what, const Decision& decision) const;

 private:
  struct Record {
    std::int64_t at_ns = 0;
    std::uint64_t steps = 0;  ///< Steps finished at that time.
    Death death;
  };
  std::vector<Record> read() const;
  void append(const Record& record);
  std::uint64_t steps() const;

  const std::size_t max_restarts_;
  const Nanoseconds window_;
  std::optional<MemoryFile> own_;  // Set if this object has made the count.
  int fd_ = -1;
};

}  // namespace weft::actors

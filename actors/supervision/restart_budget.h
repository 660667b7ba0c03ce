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
  static constexpr std::size_t kRestarts = 3;
  static constexpr Nanoseconds kWithin = std::chrono::minutes(10);

  /// Makes a new count. Throws Error(kResourceExhausted).
  explicit RestartBudget(std::size_t restarts = kRestarts, Nanoseconds within = kWithin);
  /// Opens the count at `path`, a path() of the parent process. Makes a new one if `path` is empty
  /// or cannot be opened.
  RestartBudget(std::size_t restarts, Nanoseconds within, const std::string& path);
  RestartBudget(const RestartBudget&) = delete;
  RestartBudget& operator=(const RestartBudget&) = delete;
  ~RestartBudget();

  std::size_t most() const { return most_; }
  Nanoseconds within() const { return within_; }
  /// Returns a path by which another process can open this count. Valid while this object lives.
  std::string path() const;

  struct Death {
    /// Host and number of the process, "worker1 4121": one process dies once. Empty: unknown; each
    /// such death counts.
    std::string process = {};
    std::string cause = {};  ///< Description for people: "worker1 device 0 died: SIGKILL".
    /// Fault of a process that failed by itself, see ExitReport::fault(). Else empty.
    std::string fault = {};
  };
  struct Verdict {
    std::optional<std::size_t> restart = {};  ///< Restart number, 1 to most(); empty: none left.
    /// True if one fault has come twice without a finished step between, so that another restart
    /// would end alike. `restart` is empty then.
    bool repeated = false;
  };
  /// Counts a death, unless another process has counted it, and returns whether a restart is left.
  /// A death that was counted without its fault gets the fault of a later report.
  Verdict admit(const Death& death, TimePoint now);
  /// Records that the run has finished a step or a phase.
  void step_done();
  /// Returns the causes of the deaths within the last within(), oldest first.
  std::vector<std::string> causes(TimePoint now) const;
  /// Returns "X. That is more than recovery.restarts allows, 3 within 10 min", or the text for
  /// `repeated`.
  std::string refusal(const std::string& what, const Verdict& verdict) const;

 private:
  struct Record {
    std::int64_t at_ns = 0;
    std::uint64_t steps = 0;  ///< Steps finished at that time.
    Death death;
  };
  std::vector<Record> read() const;
  void append(const Record& record);
  std::uint64_t steps() const;

  const std::size_t most_;
  const Nanoseconds within_;
  std::optional<MemoryFile> own_;  // Set if this object has made the count.
  int fd_ = -1;
};

}  // namespace weft::actors

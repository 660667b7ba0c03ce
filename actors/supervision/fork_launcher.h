#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/supervision/child_cgroups.h"
#include "actors/supervision/process_launcher.h"
#include "actors/supervision/stopped_process.h"
#include "core/base/error.h"
#include "core/base/thread.h"

namespace weft::actors {

/// ProcessLauncher that uses fork and exec.
///
/// One thread forks, watches and reaps. It lives as long as the launcher, because Linux sends the
/// parent-death signal when the *thread* that forked ends. It learns of a death from the pidfd. As
/// that is late for a big process, it also reads the exiting flag in /proc/PID/stat every 5 ms. It
/// checks twice a second whether a thread is stopped.
///
/// The destructor kills and reaps all children. The first child with a memory cap decides whether
/// this process makes control groups. If it cannot, that child and all later ones get RLIMIT_DATA.
class ForkLauncher final : public ProcessLauncher {
 public:
  /// `root`: "/", except in tests; control groups are looked up below it.
  explicit ForkLauncher(std::filesystem::path root = "/");
  ~ForkLauncher() override;

  pid_t launch(const ProcessSpec& spec, ProcessEvents events) override;
  void signal(pid_t pid, int signal) override;
  void stop(pid_t pid, Nanoseconds grace) override;
  void stop_all(Nanoseconds grace) override;
  void signal_all(int signal) override;

 private:
  struct Child {
    ProcessSpec spec;
    ProcessEvents events;
    int pidfd = -1;
    std::uint64_t rss_bytes = 0;
    std::uint64_t oom_kills_before = 0;  ///< OOM kills in this process's group at its start.
    MemoryCap cap;
    std::optional<ChildCgroup> group;
    bool death_reported = false;  ///< True after on_death.
    /// Polls that saw it exiting with status 0, which may not be set yet.
    int uncertain_polls = 0;
    std::optional<TimePoint> kill_at;  ///< End of the grace period of stop().
    TimePoint next_poll{};             ///< Time of the next look at /proc.
    Nanoseconds poll_interval{0};
    StoppedTimer stopped;
  };
  struct ForkRequest {
    ProcessSpec spec;
    ProcessEvents events;
    pid_t pid = 0;
    std::optional<Error> error;
    bool done = false;
  };

  void run();
  /// Starts a process and sets `child`'s cap and group. Runs on the launcher's thread, like all
  /// code for groups.
  pid_t start(const ProcessSpec& spec, Child& child);
  pid_t start_without_groups(const ProcessSpec& spec, Child& child, int error);
  void make_group(const ProcessSpec& spec, Child& child);
  void give_up_groups(const Error& error);
  void remove_empty_groups();
  void poll_child(pid_t pid, Child& child, bool ended);
  /// Returns the milliseconds until a child is due for a look or for SIGKILL; -1: for ever. Call it
  /// under mutex_.
  int milliseconds_to_wait() const;
  void check_stopped(pid_t pid, Child& child);
  ExitReport evidence(pid_t pid, const Child& child, int wait_status) const;
  void wake();

  const SteadyClock clock_;
  const std::filesystem::path root_;
  const int wake_fd_;
  std::optional<ChildCgroups> groups_;     // Set by the first child that needs a group.
  std::string groups_error_;               // Reason why there are none.
  std::vector<ChildCgroup> dying_groups_;  // Groups of reaped children, to be removed.
  Mutex mutex_;
  Condition changed_;
  ForkRequest* request_ = nullptr;  // Launch under way; guarded by mutex_.
  // Guarded by mutex_. Only the launcher's thread erases entries.
  std::map<pid_t, Child> children_;
  bool stopping_ = false;  // Guarded by mutex_.
  Mutex launch_mutex_;     // Allows one launch at a time.
  Thread thread_;          // Last member: uses all others.
};

}  // namespace weft::actors

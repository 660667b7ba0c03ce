#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/supervision/child_groups.h"
#include "actors/supervision/process_launcher.h"
#include "actors/supervision/stopped_process.h"
#include "core/base/error.h"
#include "core/base/thread.h"

namespace weft::actors {

/// The ProcessLauncher of the real world: fork and exec.
///
/// One thread forks, watches and reaps. It lives as long as the launcher, because Linux sends the
/// parent-death signal when the *thread* that forked ends. It learns of a death from the pidfd and,
/// as that is late for a big process, from the exiting flag in /proc/PID/stat, which it then reads
/// every 5 ms. Twice a second it looks whether a thread is stopped. The destructor kills and reaps
/// all children. The first child with a cap on its memory decides whether this process makes
/// control groups; where it cannot, that child and all later ones have RLIMIT_DATA.
class ForkLauncher final : public ProcessLauncher {
 public:
  /// `root`: where control groups are looked for; "/", but for tests.
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
    std::uint64_t oom_kills_before = 0;  ///< of this process's group
    MemoryCap cap;
    std::optional<ChildGroup> group;
    bool told = false;  ///< on_death has been called
    /// seen exiting with status 0, which may just not be set yet
    int doubtful_looks = 0;
    std::optional<TimePoint> kill_at;  ///< end of the grace of stop()
    TimePoint look_next{};             ///< at /proc
    Nanoseconds look_after{0};
    StoppedTimer stopped;
  };
  struct Request {
    ProcessSpec spec;
    ProcessEvents events;
    pid_t pid = 0;
    std::optional<Error> error;
    bool done = false;
  };

  void run();
  /// Sets `child`'s cap and group. On the launcher's thread, as all that has to do with groups.
  pid_t start(const ProcessSpec& spec, Child& child);
  pid_t start_without_groups(const ProcessSpec& spec, Child& child, int error);
  void make_group(const ProcessSpec& spec, Child& child);
  void give_up_groups(const Error& error);
  void remove_empty_groups();
  void look_at(pid_t pid, Child& child, bool ended);
  /// Until the next child is due for a look or for SIGKILL, in milliseconds; -1: for ever. Under
  /// mutex_.
  int milliseconds_to_wait() const;
  void look_for_stop(pid_t pid, Child& child);
  ExitEvidence evidence(pid_t pid, const Child& child, int wait_status) const;
  void wake();

  const SteadyClock clock_;
  const std::filesystem::path root_;
  const int wake_fd_;
  std::optional<ChildGroups> groups_;  // once there is a child with a cap
  std::string no_groups_;              // why there are none
  std::vector<ChildGroup> emptying_;   // of children that are reaped
  Mutex mutex_;
  Condition changed_;
  Request* request_ = nullptr;  // guarded by mutex_: the launch under way
  // guarded by mutex_; entries are erased by the launcher's thread only
  std::map<pid_t, Child> children_;
  bool stopping_ = false;  // guarded by mutex_
  Mutex launch_mutex_;     // one launch at a time
  Thread thread_;          // last: uses all of the above
};

}  // namespace weft::actors

#include "actors/supervision/orphans.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "actors/supervision/proc_stat.h"
#include "actors/supervision/process_platform.h"

namespace weft::actors {
namespace {

constexpr int kLookForOrphansEveryMs = 50;

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  for (const pid_t pid : process_ids()) {
    const auto stat = read_proc_stat(pid);
    if (stat && stat->parent == ::getpid()) found.push_back(pid);
  }
  return found;
}

}  // namespace

// In a simulation no process outlives its parent.
void become_subreaper() {
  if (ProcessPlatform::simulated() == nullptr) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void reap_orphans(Nanoseconds within) {
  if (ProcessPlatform::simulated() != nullptr) return;
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + within;
  while (true) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const std::vector<pid_t> left = children();
    if (left.empty() || clock.now() > give_up) return;
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    pollfd end{static_cast<int>(::syscall(SYS_pidfd_open, left.front(), 0)), POLLIN, 0};
    ::poll(&end, 1, kLookForOrphansEveryMs);
    if (end.fd >= 0) ::close(end.fd);
  }
}

}  // namespace weft::actors

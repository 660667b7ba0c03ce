#include "actors/supervision/fork_launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "actors/supervision/proc_stat.h"
#include "actors/supervision/process_platform.h"
#include "core/base/check.h"
#include "core/base/private_file.h"

extern char** environ;

namespace weft::actors {
namespace {

/// Memory, in bytes, from which a process is polled every 5 ms: its end is reported late by 5 ms
/// for each 64 MiB. Smaller ones are polled rarely, as a host may have a thousand.
constexpr std::uint64_t kLargeProcessBytes = std::uint64_t{64} << 20;
constexpr auto kLargePollInterval = std::chrono::milliseconds(5);
constexpr auto kSmallPollInterval = std::chrono::milliseconds(100);
/// Interval of attempts to remove a group whose processes were killed.
constexpr auto kEmptiesWithin = std::chrono::milliseconds(20);

/// Stack size, in bytes, of threads of a child under RLIMIT_DATA.
constexpr rlim_t kCappedStack = 1 << 20;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Returns this process's environment, with variables of `extra` in place of those of the same
/// name.
std::vector<std::string> environment_with(const std::vector<std::string>& extra) {
  std::vector<std::string> result = extra;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& other : extra) replaced = replaced || other.starts_with(name);
    if (!replaced) result.emplace_back(text);
  }
  return result;
}

/// Adds the cap of a child to its environment. With MALLOC_ARENA_MAX=1, memory that one thread has
/// freed serves all others.
std::vector<std::string> with_cap(std::vector<std::string> environment, const MemoryCap& cap) {
  if (cap.bytes == 0) return environment;
  constexpr std::string_view kArenas = "MALLOC_ARENA_MAX=";
  environment.push_back(to_environment(cap));
  if (std::ranges::none_of(environment, [&](auto& entry) { return entry.starts_with(kArenas); }))
    environment.push_back(std::string(kArenas) + "1");
  return environment;
}

/// Owner of a file descriptor; -1: none.
class Descriptor final {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

/// Opens the log for appending. Returns -1 if the process has none, /dev/null if the disk is full.
/// Throws Error(kFailedPrecondition) or Error(kResourceExhausted), and what open_trusted() throws.
int open_log(const ProcessSpec& spec) {
  if (spec.log_file.empty()) return -1;
  const int log = open_trusted(spec.log_file, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (log >= 0) return log;
  switch (errno) {
    case EDQUOT:
    case EIO:
    // Starts without a log rather than not at all.
    case ENOSPC: return ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      throw_error(ErrorCode::kResourceExhausted, "cannot write the log file {}: {}",
                  spec.log_file.string(), ::strerror(errno));
    default:
      throw_error(ErrorCode::kFailedPrecondition,
                  "cannot write the log file {}: {}; create its folder, writable for this user",
                  spec.log_file.string(), ::strerror(errno));
  }
}

/// Moves a descriptor above the numbers that a child uses. Returns the same one if that fails.
int move_up(int descriptor) {
  const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kSecretDescriptor + 1);
  if (moved < 0) return descriptor;
  ::close(descriptor);
  return moved;
}

/// Returns the read end of a pipe that holds the secret.
int readable(const Secret& secret) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw_error(ErrorCode::kResourceExhausted, "cannot make a pipe: {}", ::strerror(errno));
  // An empty pipe has room.
  [[maybe_unused]] const auto written = ::write(ends[1], secret.bytes().data(), Secret::kBytes);
  ::close(ends[1]);
  return move_up(ends[0]);
}

/// Bit of an error in joining the control group, as opposed to exec.
constexpr int kNotInItsGroup = 1 << 16;

/// Arguments of a child between fork and exec.
struct ChildSetup {
  char* const* command;
  char* const* environment;
  int log, null, error, secret, group;  // Descriptors; -1: none.
  pid_t parent;
  int nice;
  std::uint64_t data_limit;  // 0: none
};

[[noreturn]] void give_up(const ChildSetup& setup, int error) {
  [[maybe_unused]] const auto written = ::write(setup.error, &error, sizeof error);
  ::_exit(127);
}

/// Applies the memory cap. Call it before the child touches memory of its own.
void apply_memory_cap(const ChildSetup& setup) {
  if (setup.group >= 0 && ::write(setup.group, "0", 1) != 1) give_up(setup, errno | kNotInItsGroup);
  if (setup.data_limit == 0) return;
  const rlimit data{setup.data_limit, setup.data_limit};
  if (::setrlimit(RLIMIT_DATA, &data) != 0) give_up(setup, errno);
  rlimit stack{};  // Stack size of threads, which counts in full, touched or not.
  ::getrlimit(RLIMIT_STACK, &stack);
  stack.rlim_cur = std::min(stack.rlim_cur, kCappedStack);
  ::setrlimit(RLIMIT_STACK, &stack);
}

/// Turns the forked child into its program. Makes system calls only. Never returns.
[[noreturn]] void exec_child(const ChildSetup& setup) {
  ::setpgid(0, 0);
  ::setpriority(PRIO_PROCESS, 0, setup.nice);  // The forking thread has another one.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != setup.parent) ::_exit(127);  // The parent died before prctl().
  apply_memory_cap(setup);
  // Ignores both signals until the child watches them; a wrapper program between it and this
  // process ignores them throughout. Must precede the unblocking, as a signal may be pending.
  for (const int ignored : {kCheckpointSignal, kParentShutsDown}) ::signal(ignored, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int restored : {SIGPIPE, SIGXFSZ, SIGTTOU, SIGINT, SIGTERM, SIGHUP})
    ::signal(restored, SIG_DFL);
  if (setup.log >= 0) {
    ::dup2(setup.null, STDIN_FILENO);
    ::dup2(setup.log, STDOUT_FILENO);
    ::dup2(setup.log, STDERR_FILENO);
  }
  // Keeps this process's sockets out of its children: peers wait for their end of file.
  if (setup.secret >= 0) ::dup2(setup.secret, kSecretDescriptor);
  ::syscall(SYS_close_range, setup.secret >= 0 ? kSecretDescriptor + 1 : STDERR_FILENO + 1, ~0U,
            CLOSE_RANGE_CLOEXEC);
  ::execve(setup.command[0], setup.command, setup.environment);
  give_up(setup, errno);
}

}  // namespace

ForkLauncher::ForkLauncher(std::filesystem::path root)
    : root_(std::move(root)),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_("launcher", ThreadPriority::kControl, [this] { run(); }) {}

ForkLauncher::~ForkLauncher() {
  stop_all(Nanoseconds::zero());
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
  ::close(wake_fd_);
}

bool process_exists(pid_t process) {
  if (ProcessPlatform* platform = ProcessPlatform::simulated()) return platform->lives(process);
  const auto stat = read_proc_stat(process);
  return stat && !stat->exiting;
}

std::unique_ptr<ProcessLauncher> make_launcher() {
  if (ProcessPlatform* platform = ProcessPlatform::simulated()) return platform->make_launcher();
  return std::make_unique<ForkLauncher>();
}

void ForkLauncher::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
}

pid_t ForkLauncher::launch(const ProcessSpec& spec, ProcessEvents events) {
  std::lock_guard one_at_a_time(launch_mutex_);
  ForkRequest request{spec, std::move(events), 0, std::nullopt, false};
  std::unique_lock lock(mutex_);
  request_ = &request;
  wake();
  changed_.wait(lock, [&] { return request.done; });
  if (request.error) throw *request.error;
  return request.pid;
}

void ForkLauncher::signal(pid_t pid, int signal) {
  std::lock_guard lock(mutex_);
  // A process in the map is not reaped, so no other process can have its number.
  if (children_.contains(pid)) ::kill(-pid, signal);
}

void ForkLauncher::stop(pid_t pid, Nanoseconds grace) {
  std::lock_guard lock(mutex_);
  const auto it = children_.find(pid);
  if (it == children_.end()) return;
  const TimePoint kill_at = clock_.now() + grace;
  if (!it->second.kill_at || kill_at < *it->second.kill_at) it->second.kill_at = kill_at;
  ::kill(-pid, grace <= Nanoseconds::zero() ? SIGKILL : SIGTERM);
  wake();
}

void ForkLauncher::stop_all(Nanoseconds grace) {
  std::vector<pid_t> pids;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [pid, child] : children_) pids.push_back(pid);
  }
  for (const pid_t pid : pids) stop(pid, grace);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, grace + std::chrono::seconds(10), [&] { return children_.empty(); });
}

void ForkLauncher::signal_all(int signal) {
  std::lock_guard lock(mutex_);
  for (const auto& [pid, child] : children_) ::kill(-pid, signal);
}

void ForkLauncher::give_up_groups(const Error& error) {
  groups_.reset();
  groups_error_ = error.message();
}

void ForkLauncher::make_group(const ProcessSpec& spec, Child& child) {
  child.group.reset();
  try {
    if (!groups_ && groups_error_.empty()) groups_.emplace(root_);
    // Under cgroup version 1, a process can make groups wherever it is.
    const bool needed =
        groups_ && (spec.memory_cap != 0 || groups_->kind() == CapKind::kControlGroupV2);
    if (needed) child.group.emplace(groups_->make(spec.memory_cap));
  } catch (const Error& error) {
    give_up_groups(error);
  }
  if (spec.memory_cap != 0)
    child.cap = {spec.memory_cap, groups_ ? groups_->kind() : CapKind::kDataLimit, groups_error_};
}

void ForkLauncher::remove_empty_groups() {
  std::erase_if(dying_groups_, [](ChildCgroup& group) { return group.remove(); });
}

pid_t ForkLauncher::start_without_groups(const ProcessSpec& spec, Child& child, int error) {
  give_up_groups(
      Error(ErrorCode::kUnavailable,
            fmt::format("cannot add a process to control group {}: {}",
                        child.group->procs_file().parent_path().string(), ::strerror(error))));
  return start(spec, child);
}

pid_t ForkLauncher::start(const ProcessSpec& spec, Child& child) {
  if (spec.memory_cap != 0 || spec.starts_capped_children) make_group(spec, child);
  std::vector<std::string> command = spec.command;
  std::vector<std::string> environment = environment_with(with_cap(spec.environment, child.cap));
  const auto argv = pointers(command);
  const auto envp = pointers(environment);
  const Descriptor log(open_log(spec));
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Descriptor group(
      child.group ? ::open(child.group->procs_file().c_str(), O_WRONLY | O_CLOEXEC) : -1);
  if (child.group && group.number() < 0) return start_without_groups(spec, child, errno);
  int failure[2] = {-1, -1};
  const bool piped = ::pipe2(failure, O_CLOEXEC) == 0;
  const Descriptor failure_out(failure[0]);
  // The child's end must not have the number of its secret's descriptor.
  Descriptor failure_in(piped ? move_up(failure[1]) : -1);
  const Descriptor secret(spec.secret.empty() ? -1 : readable(spec.secret));
  const ChildSetup setup{
      argv.data(),         envp.data(),
      log.number(),        null.number(),
      failure_in.number(), secret.number(),
      group.number(),      ::getpid(),
      ordinary_nice(),     child.cap.kind == CapKind::kDataLimit ? child.cap.bytes : 0};
  const pid_t pid = piped ? ::fork() : -1;
  if (pid == 0) exec_child(setup);
  if (pid < 0)
    throw_error(ErrorCode::kResourceExhausted, "cannot start {}: {}", spec.label,
                ::strerror(errno));
  failure_in.close();
  int error = 0;
  // The read returns at once: with an error, or at the end of file when exec closes the descriptor.
  const ssize_t got = ::read(failure_out.number(), &error, sizeof error);
  ::setpgid(pid, pid);  // The child does so too; whichever runs first counts.
  if (got == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    if ((error & kNotInItsGroup) != 0)
      return start_without_groups(spec, child, error & ~kNotInItsGroup);
    const bool passes = error == EAGAIN || error == ENOMEM || error == ETXTBSY || error == EMFILE ||
                        error == ENFILE;
    throw_error(passes ? ErrorCode::kResourceExhausted : ErrorCode::kFailedPrecondition,
                "cannot run {} as {}: {}", spec.command[0], spec.label, ::strerror(error));
  }
  return pid;
}

ExitReport ForkLauncher::evidence(pid_t pid, const Child& child, int wait_status) const {
  ExitReport evidence;
  evidence.has_parent_report = true;
  evidence.pid = pid;
  if (WIFSIGNALED(wait_status)) {
    evidence.signal = WTERMSIG(wait_status);
    evidence.core_dumped = WCOREDUMP(wait_status);
  } else {
    evidence.status = WEXITSTATUS(wait_status);
  }
  evidence.rss_bytes = child.rss_bytes;
  evidence.cap = child.cap;
  if (child.group) {
    evidence.oom_kills = child.group->oom_kills();
    evidence.reached_memory_cap = child.group->reached_its_cap();
  } else {
    const std::uint64_t kills = own_oom_kills();
    evidence.oom_kills = kills - std::min(kills, child.oom_kills_before);
  }
  evidence.log_file = child.spec.log_file.string();
  evidence.read_log();
  return evidence;
}

void ForkLauncher::check_stopped(pid_t pid, Child& child) {
  const TimePoint now = clock_.now();
  if (!child.events.on_stopped || !child.stopped.due(now)) return;
  auto silence = child.stopped.update(find_stopped_thread(pid), now);
  if (!silence) return;
  ExitReport stopped = evidence(pid, child, 0);
  stopped.silence_text = std::move(*silence);
  child.events.on_stopped(stopped);
}

void ForkLauncher::poll_child(pid_t pid, Child& child, bool ended) {
  const TimePoint now = clock_.now();
  if (!ended && now < child.next_poll) return;
  const auto stat = read_proc_stat(pid);
  if (stat && !stat->exiting && !ended) {
    if (stat->rss_bytes != 0) child.rss_bytes = stat->rss_bytes;
    // Polls often at first, as the process may grow.
    child.poll_interval = child.rss_bytes >= kLargeProcessBytes
                              ? Nanoseconds(kLargePollInterval)
                              : std::clamp<Nanoseconds>(2 * child.poll_interval, kLargePollInterval,
                                                        kSmallPollInterval);
    child.next_poll = now + child.poll_interval;
    return check_stopped(pid, child);
  }
  child.next_poll = now + kLargePollInterval;
  if (child.death_reported) return;
  int wait_status = stat ? stat->wait_status : 0;
  if (ended) {
    siginfo_t dead{};
    rusage used{};
    // The C library's waitid() lacks the argument for rusage.
    ::syscall(SYS_waitid, P_PID, pid, &dead, WEXITED | WNOHANG | WNOWAIT, &used);
    child.rss_bytes = std::max<std::uint64_t>(child.rss_bytes, used.ru_maxrss * 1024);
    wait_status = dead.si_code == CLD_EXITED
                      ? dead.si_status << 8
                      : dead.si_status | (dead.si_code == CLD_DUMPED ? 0x80 : 0);
  } else if (child.rss_bytes < kLargeProcessBytes ||
             (wait_status == 0 && ++child.uncertain_polls < 4)) {
    return;  // The pidfd reports soon; the flag precedes the status.
  }
  child.death_reported = true;
  if (child.events.on_death) child.events.on_death(evidence(pid, child, wait_status));
}

int ForkLauncher::milliseconds_to_wait() const {
  if (children_.empty() && dying_groups_.empty()) return -1;
  TimePoint next = TimePoint::max();
  for (const auto& [pid, child] : children_)
    next = std::min({next, child.next_poll, child.kill_at.value_or(TimePoint::max())});
  if (!dying_groups_.empty()) next = std::min(next, clock_.now() + kEmptiesWithin);
  const Nanoseconds left = std::max<Nanoseconds>(next - clock_.now(), Nanoseconds::zero());
  return std::chrono::ceil<std::chrono::milliseconds>(left).count();
}

void ForkLauncher::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::vector<pollfd> polled = {{wake_fd_, POLLIN, 0}};
    std::vector<pid_t> pids;
    for (const auto& [pid, child] : children_) {
      polled.push_back({child.pidfd, POLLIN, 0});
      pids.push_back(pid);
    }
    const int wait_ms = milliseconds_to_wait();
    lock.unlock();
    ::poll(polled.data(), polled.size(), wait_ms);
    if (polled[0].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = ::read(wake_fd_, &count, sizeof count);
    }
    for (std::size_t i = 0; i < pids.size(); ++i) {
      // `child` may be used without the lock: only this thread erases, and std::map does not move
      // its elements.
      Child& child = children_.find(pids[i])->second;
      const bool ended = polled[i + 1].revents != 0;
      poll_child(pids[i], child, ended);
      if (!ended) continue;
      int wait_status = 0;
      ::kill(-pids[i], SIGKILL);  // Ends the rest of its process group.
      ::waitpid(pids[i], &wait_status, 0);
      ::close(child.pidfd);
      const auto on_reaped = std::move(child.events.on_reaped);
      const ExitReport final_evidence = evidence(pids[i], child, wait_status);
      if (child.group) dying_groups_.push_back(std::move(*child.group));
      lock.lock();
      children_.erase(pids[i]);
      lock.unlock();
      if (on_reaped) on_reaped(final_evidence);
    }
    remove_empty_groups();
    lock.lock();
    const TimePoint now = clock_.now();
    for (auto& [pid, child] : children_) {
      if (!child.kill_at || now < *child.kill_at) continue;
      ::kill(-pid, SIGKILL);
      child.kill_at.reset();
    }
    if (request_ != nullptr) {
      ForkRequest& request = *std::exchange(request_, nullptr);
      try {
        Child started;
        started.oom_kills_before = own_oom_kills();
        request.pid = start(request.spec, started);
        const int pidfd = ::syscall(SYS_pidfd_open, request.pid, 0);
        WEFT_CHECK(pidfd >= 0, "pidfd_open needs Linux 5.3: {}", ::strerror(errno));
        started.pidfd = pidfd;
        started.spec = std::move(request.spec);
        started.events = std::move(request.events);
        children_.emplace(request.pid, std::move(started));
      } catch (...) {
        request.error = current_error();
      }
      request.done = true;
    }
    changed_.notify_all();
  }
}

}  // namespace weft::actors

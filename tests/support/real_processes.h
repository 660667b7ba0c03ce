#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/supervision/proc_stat.h"
#include "tests/support/eventually.h"

namespace weft::test {

/// Returns CLOCK_MONOTONIC, which is equal for all processes of a machine.
inline std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Real processes of one test in their own folder, found by a marker in their environment. The
/// destructor kills those still running.
class RealProcesses final {
 public:
  explicit RealProcesses(const std::string& name)
      : directory_(std::filesystem::temp_directory_path() /
                   fmt::format("weft_{}_{}_{}", name, ::getpid(), monotonic_ns())),
        marker_(fmt::format("WEFT_TEST_MARKER={}", directory_.filename().string())) {
    std::filesystem::create_directories(directory_);
  }
  ~RealProcesses() {
    for (const pid_t pid : left()) ::kill(pid, SIGKILL);
    for (Process& process : started_) ::waitpid(process.pid, nullptr, 0);
    std::error_code ignored;
    if (!kept_ && std::getenv("WEFT_TEST_KEEP") == nullptr)
      std::filesystem::remove_all(directory_, ignored);
  }
  RealProcesses(const RealProcesses&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  /// Keeps the folder for inspection.
  void keep() { kept_ = true; }
  static std::filesystem::path program(const std::string& name) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
  }

  struct Process {
    pid_t pid = 0;
    std::filesystem::path output;  ///< stdout and stderr
    std::optional<int> wait_status;

    std::string text() const { return read_file(output); }
    /// Returns 0 to 255, 128 + signal as in a shell, or -1 if the process still runs after
    /// `within`.
    int wait(std::chrono::milliseconds within = kPatience) {
      eventually(
          [this] {
            int status = 0;
            if (!wait_status && ::waitpid(pid, &status, WNOHANG) == pid) wait_status = status;
            return wait_status.has_value();
          },
          within);
      if (!wait_status) return -1;
      return WIFSIGNALED(*wait_status) ? 128 + WTERMSIG(*wait_status) : WEXITSTATUS(*wait_status);
    }
    /// Waits for `before` in the output. Returns the text after it, up to the end of the line.
    std::string word_after(const std::string& before) const {
      std::string found;
      const bool there = eventually([&] {
        const std::string all = text();
        const auto at = all.find(before);
        if (at == std::string::npos) return false;
        const auto end = all.find('\n', at);
        found = all.substr(at + before.size(), end - at - before.size());
        return end != std::string::npos;
      });
      if (!there) throw std::runtime_error("'" + before + "' does not appear in: " + text());
      return found;
    }
  };

  /// Starts build/bin/PROGRAM, or a program with an absolute path, in the test's folder. The
  /// reference is valid as long as this object. `user` is the process's user, if different.
  /// `standard_output` is a descriptor that replaces the output file, which then has standard error
  /// only. -1 means none.
  Process& start(const std::string& name, const std::vector<std::string>& arguments,
                 std::optional<uid_t> user = {}, int standard_output = -1) {
    Process process;
    process.output =
        directory_ /
        fmt::format("{}.{}.out", std::filesystem::path(name).filename().string(), started_.size());
    const std::string path = program(name).string();
    const pid_t parent = ::getpid();
    process.pid = ::fork();
    if (process.pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(126);
      ::setpgid(0, 0);
      ::putenv(const_cast<char*>(marker_.c_str()));
      // Heads link their tokens there.
      ::setenv("XDG_STATE_HOME", (directory_ / "user_state").c_str(), 1);
      [[maybe_unused]] const int moved = ::chdir(directory_.c_str());
      const int out = ::open(process.output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
      ::dup2(standard_output >= 0 ? standard_output : out, STDOUT_FILENO);
      ::dup2(out, STDERR_FILENO);
      std::vector<char*> argv = {const_cast<char*>(path.c_str())};
      for (const std::string& argument : arguments)
        argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      if (user && (::setgroups(0, nullptr) != 0 || ::setgid(*user) != 0 || ::setuid(*user) != 0))
        ::_exit(125);
      ::execv(path.c_str(), argv.data());
      ::_exit(126);
    }
    started_.push_back(std::move(process));
    return started_.back();
  }

  /// Starts a process and waits for its end.
  Process& run(const std::string& name, const std::vector<std::string>& arguments) {
    Process& process = start(name, arguments);
    process.wait();
    return process;
  }

  /// Returns all processes that have the marker and can still run, whoever their parent is.
  std::vector<pid_t> left() const {
    std::vector<pid_t> found;
    for (const pid_t pid : actors::process_ids()) {
      const std::string environment = '\0' + read_file(fmt::format("/proc/{}/environ", pid));
      if (environment.find('\0' + marker_ + '\0') == std::string::npos) continue;
      const auto stat = actors::read_proc_stat(pid);
      if (stat && !stat->exiting) found.push_back(pid);
    }
    return found;
  }
  bool none_left() const {
    return eventually([this] { return left().empty(); });
  }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name) << text;
    return directory_ / name;
  }

 private:
  const std::filesystem::path directory_;
  const std::string marker_;
  bool kept_ = false;
  std::deque<Process> started_;
};

}  // namespace weft::test

#include "apps/bench/test_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "core/base/error.h"

namespace weft::apps {
namespace {

struct CommandEnd {
  int status = 0;
  std::string text;
};

/// Runs a shell command until it exits. Captures stdout and stderr together.
CommandEnd run_command(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr)
    throw_error(ErrorCode::kResourceExhausted, "cannot run '{}': {}", command, ::strerror(errno));
  CommandEnd end;
  char buffer[4096];
  while (const std::size_t got = ::fread(buffer, 1, sizeof buffer, pipe))
    end.text.append(buffer, got);
  const int status = ::pclose(pipe);
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

}  // namespace

std::string TestHosts::unsupported_because(const std::filesystem::path& tool) {
  if (!std::filesystem::exists(tool))
    throw_error(ErrorCode::kNotFound, "{} does not exist; build it: cmake --build build",
                tool.string());
  CommandEnd end = run_command(fmt::format("'{}' check", tool.string()));
  while (end.text.ends_with('\n')) end.text.pop_back();
  return end.status == 0 ? "" : end.text;
}

TestHosts::TestHosts(Options options) : options_(std::move(options)) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0)
    throw_error(ErrorCode::kResourceExhausted, "cannot make a pipe to weft-hosts: {}",
                ::strerror(errno));
  std::vector<std::string> words = {options_.tool.string(),
                                    "--session",
                                    options_.session,
                                    "up",
                                    std::to_string(options_.hosts),
                                    "--nics",
                                    std::to_string(options_.nics),
                                    "--hold"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  keeper_.pid = ::fork();
  const int reason = errno;
  if (keeper_.pid == 0) {
    // Starts a session of its own, so that Ctrl-C reaches only the parent, which then stops the
    // hosts.
    ::setsid();
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(out[1], STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  keeper_.stdin_fd = in[1];
  if (keeper_.pid < 0) {
    ::close(out[0]);
    throw_error(ErrorCode::kResourceExhausted, "cannot start {}: {}", options_.tool.string(),
                ::strerror(reason));
  }
  std::string text;
  char buffer[4096];
  // A line per host: "host0 none 198.18.0.1 198.18.1.1", then "ready: ...".
  while (text.find("ready:") == std::string::npos) {
    const ssize_t got = ::read(out[0], buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, got);
  }
  ::close(out[0]);
  if (text.find("ready:") == std::string::npos)
    throw_error(ErrorCode::kUnavailable, "cannot make test hosts: {}", text);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && !line.starts_with("ready:");) {
    std::istringstream fields(line);
    std::string name, rate;
    std::vector<std::string> addresses;
    fields >> name >> rate;
    for (std::string address; fields >> address;) addresses.push_back(address);
    addresses_.push_back(std::move(addresses));
  }
  outer_ = run_tool("address outer");
  outer_.erase(outer_.find_last_not_of('\n') + 1);
}

TestHosts::Keeper::~Keeper() {
  if (stdin_fd >= 0) ::close(stdin_fd);
  if (pid > 0) ::waitpid(pid, nullptr, 0);
}

std::string TestHosts::run_tool(const std::string& arguments) const {
  CommandEnd end = run_command(
      fmt::format("'{}' --session {} {}", options_.tool.string(), options_.session, arguments));
  if (end.status != 0)
    throw_error(ErrorCode::kUnavailable, "{} {}: {}", options_.tool.string(), arguments, end.text);
  return end.text;
}

std::vector<std::string> TestHosts::command_on(int host,
                                               const std::vector<std::string>& command) const {
  std::vector<std::string> words = {options_.tool.string(), "--session", options_.session, "run",
                                    fmt::format("host{}", host)};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

void TestHosts::limit(int host, int nic, std::uint64_t bits_per_second) const {
  run_tool(fmt::format("limit host{} {}bit {}", host, bits_per_second, nic));
}

void TestHosts::disconnect_host(int host) const { run_tool(fmt::format("cut host{}", host)); }

void TestHosts::reconnect_host(int host) const { run_tool(fmt::format("mend host{}", host)); }

std::uint64_t TestHosts::bytes_received(int host, int nic) const {
  // A line per interface: "eth0 SENT RECEIVED".
  std::istringstream lines(run_tool(fmt::format("bytes host{}", host)));
  const std::string wanted = fmt::format("eth{}", nic);
  std::string name;
  for (std::uint64_t sent = 0, received = 0; lines >> name >> sent >> received;)
    if (name == wanted) return received;
  throw_error(ErrorCode::kUnavailable, "host{} has no interface {}", host, wanted);
}

}  // namespace weft::apps

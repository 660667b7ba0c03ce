#include "actors/supervision/proc_stat.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>

namespace weft::actors {
namespace {

// PF_EXITING and PF_SIGNALED of include/linux/sched.h.
constexpr std::uint64_t kExiting = 0x4;
constexpr std::uint64_t kSignaled = 0x400;

/// Reader of the words after the command name, which are separated by spaces.
class Words {
 public:
  explicit Words(std::string_view rest) : rest_(rest) {}
  std::string_view next() {
    const auto begin = rest_.find_first_not_of(' ');
    if (begin == std::string_view::npos) return rest_ = {};
    rest_.remove_prefix(begin);
    const auto word = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(word.size());
    return word;
  }
  std::uint64_t number() {
    const auto word = next();
    std::uint64_t value = 0;
    std::from_chars(word.data(), word.data() + word.size(), value);
    return value;
  }
  void skip(int count) {
    while (count-- > 0) next();
  }

 private:
  std::string_view rest_;
};

}  // namespace

std::optional<ProcStat> parse_proc_stat(std::string_view text) {
  // "PID (name, which may hold ')' and spaces) S ppid ...": field 3 follows the last ')'. Numbers
  // are those of proc(5).
  const auto close = text.rfind(')');
  if (close == std::string_view::npos) return std::nullopt;
  while (text.ends_with('\n')) text.remove_suffix(1);
  Words words(text.substr(close + 1));
  const auto state = words.next();
  if (state.size() != 1) return std::nullopt;
  ProcStat stat;
  stat.state = state[0];
  stat.parent = words.number();  // 4
  // 5 pgrp ... 8 tpgid
  words.skip(4);
  const std::uint64_t flags = words.number();  // 9
  // 10 minflt ... 21 itrealvalue
  words.skip(12);
  stat.start_ticks = words.number();                          // 22
  words.skip(1);                                              // 23 vsize
  stat.rss_bytes = words.number() * ::sysconf(_SC_PAGESIZE);  // 24
  // 25 rsslim ... 51 env_end
  words.skip(27);
  stat.exiting = (flags & (kExiting | kSignaled)) != 0 || stat.state == 'Z' || stat.state == 'X';
  if (stat.exiting) stat.wait_status = words.number();  // 52 exit_code
  return stat;
}

namespace {

std::optional<ProcStat> read_stat(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[1024];
  const ssize_t size = ::read(file, text, sizeof text);
  ::close(file);
  if (size <= 0) return std::nullopt;
  return parse_proc_stat({text, static_cast<std::size_t>(size)});
}

}  // namespace

std::optional<ProcStat> read_proc_stat(pid_t pid) {
  char path[32];
  *fmt::format_to(path, "/proc/{}/stat", pid) = '\0';
  return read_stat(path);
}

std::optional<ProcStat> read_thread_stat(pid_t pid, pid_t thread) {
  char path[48];
  *fmt::format_to(path, "/proc/{}/task/{}/stat", pid, thread) = '\0';
  return read_stat(path);
}

std::vector<pid_t> process_ids() {
  std::vector<pid_t> found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size()) found.push_back(pid);
  }
  return found;
}

}  // namespace weft::actors

#include "actors/supervision/stopped_process.h"

#include <dirent.h>
#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <string_view>

#include "actors/supervision/proc_stat.h"

namespace weft::actors {
namespace {

/// Longest gap between looks that still counts as observed.
constexpr Nanoseconds kTrustedGap = 4 * StoppedTimer::kLookEvery;

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

pid_t tracer_of(const std::string& task) {
  std::ifstream status(task + "/status");
  constexpr std::string_view kKey = "TracerPid:";
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kKey)) continue;
    pid_t tracer = 0;
    const auto begin = line.find_first_not_of(" \t", kKey.size());
    if (begin != std::string::npos)
      std::from_chars(line.data() + begin, line.data() + line.size(), tracer);
    return tracer;
  }
  return 0;
}

std::optional<StoppedThread> look_at_thread(pid_t pid, pid_t thread) {
  const auto stat = read_thread_stat(pid, thread);
  if (!stat || (stat->state != 'T' && stat->state != 't')) return std::nullopt;
  const std::string task = fmt::format("/proc/{}/task/{}", pid, thread);
  return StoppedThread{thread, stat->state, thread == pid, first_line(task + "/comm"),
                       tracer_of(task)};
}

}  // namespace

std::optional<StoppedThread> find_stopped_thread(pid_t pid) {
  if (auto leader = look_at_thread(pid, pid)) return leader;
  DIR* const tasks = ::opendir(fmt::format("/proc/{}/task", pid).c_str());
  if (tasks == nullptr) return std::nullopt;
  std::optional<StoppedThread> found;
  while (const dirent* entry = found ? nullptr : ::readdir(tasks)) {
    const std::string_view name = entry->d_name;
    pid_t thread = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), thread);
    if (error == std::errc() && end == name.data() + name.size() && thread != pid)
      found = look_at_thread(pid, thread);
  }
  ::closedir(tasks);
  return found;
}

std::string describe_silence(Nanoseconds silence, pid_t pid) {
  const std::string text = fmt::format("has not responded for {:.1f} s", in_seconds(silence));
  if (pid == 0) return text + ": stopped, overloaded or disconnected";
  const auto stat = read_proc_stat(pid);
  if (!stat || stat->exiting) return text + ", and has ended";
  if (const auto stopped = find_stopped_thread(pid))
    return fmt::format("{}: it is stopped (state {})", text, stopped->state);
  return fmt::format("{}, although it runs (state {}): overloaded or disconnected", text,
                     stat->state);
}

std::optional<std::string> StoppedTimer::update(const std::optional<StoppedThread>& stopped,
                                                TimePoint now) {
  if (last_look_ && now - *last_look_ > kTrustedGap) since_.reset();
  last_look_ = now;
  if (!stopped) since_.reset();
  if (!stopped || told_) return std::nullopt;
  if (!since_) since_ = now;
  if (now - *since_ < kDeathTimeout) return std::nullopt;
  told_ = true;
  const double seconds = in_seconds(now - *since_);
  const std::string tracer =
      stopped->tracer == 0 ? "" : fmt::format(" by its tracer, pid {}", stopped->tracer);
  if (stopped->is_main_thread)
    return fmt::format("has been stopped (state {}){} for {:.1f} s", stopped->state, tracer,
                       seconds);
  return fmt::format("has had its thread {} ({}) stopped (state {}){} for {:.1f} s",
                     stopped->thread, stopped->name, stopped->state, tracer, seconds);
}

}  // namespace weft::actors

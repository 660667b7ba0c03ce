#include "actors/supervision/exit_report.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/private_file.h"
#include "core/base/units.h"

namespace weft::actors {
namespace {

/// Returns whether a line is the assertion by which UCX 1.13 ends a process that has received bytes
/// of another protocol on one of its TCP ports.
bool is_ucx_protocol_assertion(const std::string& line) {
  return line.find("tcp_ep.c:") != std::string::npos && line.find("Assertion") != std::string::npos;
}

/// Exit statuses above this name the signal that ended the process, as in a shell.
constexpr int kEndedBySignal = 128;

std::string out_of_memory_at(const MemoryCap& cap) {
  return fmt::format("out of memory, at its cap of {} (cluster.memory, {})",
                     format_bytes(cap.bytes), to_string(cap.kind));
}

/// Returns the part that memory had in a process's exit, to follow the signal or status; or "".
std::string memory_cause(const ExitReport& report) {
  if (report.reached_memory_cap && report.oom_kills != 0)
    return " by the kernel: " + out_of_memory_at(report.cap);
  if (report.oom_kills != 0) return fmt::format(", kernel OOM counter +{}", report.oom_kills);
  const bool ends_itself = report.cap.kind == CapKind::kDataLimit && !report.exited_cleanly() &&
                           report.signal != SIGKILL && report.signal != SIGTERM &&
                           report.signal != SIGINT;
  if (!ends_itself) return "";
  if (std::ranges::any_of(report.tail_lines, reports_out_of_memory))
    return ": " + out_of_memory_at(report.cap);
  // Libraries may fail without a message if they get no memory.
  if (report.signal != 0)
    return fmt::format(", capped at {} (cluster.memory, {})", format_bytes(report.cap.bytes),
                       to_string(report.cap.kind));
  return "";
}

}  // namespace

void ExitReport::read_log() {
  constexpr std::size_t kLines = 20, kCrashLines = 16;
  auto lines = log_file.empty() ? std::nullopt : last_lines_of(log_file, kLines + kCrashLines);
  log_read = lines.has_value();
  if (!lines) return;
  // The log of a crash ends with its stack. Keeps the lines before the stack too.
  const auto crash = std::ranges::find_if(
      *lines, [](const std::string& line) { return line.starts_with("crash: SIG"); });
  const std::size_t kept = kLines + static_cast<std::size_t>(lines->end() - crash);
  if (lines->size() > kept)
    lines->erase(lines->begin(), lines->end() - static_cast<std::ptrdiff_t>(kept));
  tail_lines = std::move(*lines);
}

std::string ExitReport::summary() const {
  return silence_text.empty() ? "died: " + cause() : silence_text;
}

std::string ExitReport::cause() const {
  if (!silence_text.empty()) return silence_text;
  if (!has_parent_report) return "connection lost";
  std::string text = signal != 0 ? signal_name(signal) : fmt::format("exit status {}", status);
  if (signal == SIGABRT &&
      std::any_of(tail_lines.begin(), tail_lines.end(), is_ucx_protocol_assertion))
    text += kForeignUcxTraffic;
  text += memory_cause(*this);
  if (core_dumped) text += ", core dumped";
  if (rss_bytes != 0) text += fmt::format(", rss {}", format_bytes(rss_bytes));
  return text;
}

bool ExitReport::crashed() const {
  if (!has_parent_report || !silence_text.empty() || exited_cleanly() || oom_kills != 0)
    return false;
  if (signal == 0 && status > kEndedBySignal) return false;
  switch (signal) {
    case 0:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGSEGV:
    case SIGSYS:
    case SIGTRAP: return std::ranges::none_of(tail_lines, is_ucx_protocol_assertion);
    default: return false;
  }
}

std::string ExitReport::crash_signature() const {
  if (!crashed()) return "";
  const std::string what =
      signal != 0 ? signal_name(signal) : fmt::format("exit status {}", status);
  return tail_lines.empty() ? what : what + ": " + mask_numbers(tail_lines.back());
}

std::string ExitReport::log_note() const {
  if (log_file.empty()) return "";
  if (tail_lines.empty())
    return fmt::format("; log: {} ({})", log_file, log_read ? "empty" : "on that host; not read");
  return fmt::format("; log: {}, which ends with:\n  | {}", log_file,
                     fmt::join(tail_lines, "\n  | "));
}

std::string mask_numbers(const std::string& of) {
  std::string text, word;
  const auto end_word = [&] {
    const bool number = std::ranges::any_of(word, [](char c) { return c >= '0' && c <= '9'; });
    text += number ? "#" : word;
    word.clear();
  };
  for (const char c : of) {
    const bool in_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (in_word) {
      word += c;
      continue;
    }
    end_word();
    text += c;
  }
  end_word();
  return text;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::optional<std::vector<std::string>> last_lines_of(const std::string& path, std::size_t lines) {
  constexpr std::streamoff kMaxBytes = 32768;
  try {
    check_trusted_owner(path, "it is not read");
  } catch (const Error&) {
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kMaxBytes));
  if (size > kMaxBytes) {
    std::string partial;
    std::getline(file, partial);
  }
  std::vector<std::string> found;
  for (std::string line; std::getline(file, line);) {
    for (char& c : line)
      if (static_cast<unsigned char>(c) < 0x20 && c != '\t') c = ' ';
    if (line.size() > 400) line = line.substr(0, 397) + "...";
    found.push_back(std::move(line));
  }
  if (found.size() > lines) found.erase(found.begin(), found.end() - lines);
  return found;
}

}  // namespace weft::actors
